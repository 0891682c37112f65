/* Stopping a command that a person has had enough of, by SIGINT or SIGTERM: exit status 130 and a
 * word. Work that has something to bring home asks whether they came; all other ends at once. */
#ifndef KC_SIM_CLI_INTERRUPT_H
#define KC_SIM_CLI_INTERRUPT_H

#include <stdbool.h>

/* The two signals say so and end the process there and then: for main, before anything else. */
void kc_interrupt_at_once(void);

/* From now on they are only noted. */
void kc_interrupt_catch(void);

/* They end it again. One that came in between is remembered. */
void kc_interrupt_release(void);

/* True once one of them has come. `context` is not used: the shape is kc_replay_config's. */
bool kc_interrupt_wanted(void *context);

#endif

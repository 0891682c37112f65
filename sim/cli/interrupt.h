/* Stopping a run that a person has had enough of: SIGINT and SIGTERM are noted, the run asks. */
#ifndef KC_SIM_CLI_INTERRUPT_H
#define KC_SIM_CLI_INTERRUPT_H

#include <stdbool.h>

/* From now on the two signals no longer end the process. */
void kc_interrupt_catch(void);

/* They end it again. One that came in between is remembered. */
void kc_interrupt_release(void);

/* True once one of them has come. `context` is not used: the shape is kc_replay_config's. */
bool kc_interrupt_wanted(void *context);

#endif

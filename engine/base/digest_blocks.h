/* The compression of SHA-256 over whole blocks, two ways. Internal to engine/base and its test. */
#ifndef KC_ENGINE_BASE_DIGEST_BLOCKS_H
#define KC_ENGINE_BASE_DIGEST_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* FIPS 180-4 section 4.2.2. */
extern const uint32_t kc_sha256_round_constant[64];

/* Plain C, any host. `blocks` blocks of 64 bytes. */
void kc_sha256_blocks_plain(uint32_t state[8], const unsigned char *data, size_t blocks);

/* The SHA instructions of x86-64; callable only where kc_sha256_has_instructions() is true. Same
 * digest, about eight times faster. */
bool kc_sha256_has_instructions(void);
void kc_sha256_blocks_x86(uint32_t state[8], const unsigned char *data, size_t blocks);

#endif

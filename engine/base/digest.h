/* SHA-256 (FIPS 180-4) for results and traces, and a 64-bit mixer for tables and checksums. */
#ifndef KC_ENGINE_BASE_DIGEST_H
#define KC_ENGINE_BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KC_SHA256_BYTES = 32, KC_SHA256_HEX_BYTES = 65 };

struct kc_sha256 {
  uint32_t state[8];
  uint64_t length_bytes;
  unsigned char block[64];
  size_t block_used;
  bool has_instructions; /* of the processor; found out once per digest */
};

void kc_sha256_init(struct kc_sha256 *sha);
void kc_sha256_update(struct kc_sha256 *sha, const void *data, size_t bytes);
/* Little-endian, whatever the host. */
void kc_sha256_update_u64(struct kc_sha256 *sha, uint64_t value);
void kc_sha256_update_words(struct kc_sha256 *sha, const uint64_t *words, size_t count);
/* Finishes; `sha` must be initialised again before reuse. */
void kc_sha256_final(struct kc_sha256 *sha, unsigned char out[KC_SHA256_BYTES]);
/* Finishes into 64 lower-case hex digits and a terminator. */
void kc_sha256_final_hex(struct kc_sha256 *sha, char out[KC_SHA256_HEX_BYTES]);

/* Bijective 64-bit finaliser (the one of splitmix64): every input bit moves half the output. */
static inline uint64_t kc_mix64(uint64_t x)
{
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

#endif

/* SHA-256 as FIPS 180-4 states it, in plain C.
 *
 *   data ---> block[64] ---> compress ---> state[8] ---> 32 bytes, big-endian
 *             (only the rest that does not fill a block; whole blocks go straight from `data`)
 *
 * A result digest is part of the program's contract (same scenario, trace, seed and version: same
 * digest), so it has to be the same on every host: all words are put together byte by byte.
 *
 * Speed: traces of gigabytes are hashed, so the 64 rounds are unrolled by 8. Within such a group
 * the eight working variables change roles instead of places, and the message schedule is kept in
 * a ring of 16 words that fits the registers and the first cache level. Where the processor has
 * instructions for it, digest_x86.c takes the blocks instead; both give the same digest. */
#include "engine/base/digest.h"

#include <string.h>

#include "engine/base/check.h"
#include "engine/base/digest_blocks.h"

enum { BLOCK_BYTES = 64 };

/* FIPS 180-4 section 4.2.2: the first 32 bits of the fractional parts of the cube roots of the
 * first 64 primes. */
const uint32_t kc_sha256_round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static inline uint32_t rotate_right(uint32_t x, unsigned bits)
{
  return (x >> bits) | (x << (32 - bits));
}

static inline uint32_t load_be32(const unsigned char *p)
{
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

static inline void store_be32(unsigned char *p, uint32_t x)
{
  p[0] = (unsigned char)(x >> 24);
  p[1] = (unsigned char)(x >> 16);
  p[2] = (unsigned char)(x >> 8);
  p[3] = (unsigned char)x;
}

/* Section 4.1.2. choose = (e & f) ^ (~e & g); majority = (a & b) ^ (a & c) ^ (b & c); both in the
 * equal forms with one operation less. */
static inline uint32_t choose(uint32_t e, uint32_t f, uint32_t g) { return g ^ (e & (f ^ g)); }
static inline uint32_t majority(uint32_t a, uint32_t b, uint32_t c)
{
  return (a & b) | (c & (a | b));
}
static inline uint32_t big_sigma0(uint32_t x)
{
  return rotate_right(x, 2) ^ rotate_right(x, 13) ^ rotate_right(x, 22);
}
static inline uint32_t big_sigma1(uint32_t x)
{
  return rotate_right(x, 6) ^ rotate_right(x, 11) ^ rotate_right(x, 25);
}
static inline uint32_t small_sigma0(uint32_t x)
{
  return rotate_right(x, 7) ^ rotate_right(x, 18) ^ (x >> 3);
}
static inline uint32_t small_sigma1(uint32_t x)
{
  return rotate_right(x, 17) ^ rotate_right(x, 19) ^ (x >> 10);
}

/* One round, section 6.2.2 step 3. The caller names the variables in rotated order, so that only
 * `d` and `h` are written. `word` is W[t] + K[t]. */
#define ROUND(a, b, c, d, e, f, g, h, word)                            \
  do {                                                                 \
    (h) += big_sigma1(e) + choose((e), (f), (g)) + (word);             \
    (d) += (h);                                                        \
    (h) += big_sigma0(a) + majority((a), (b), (c));                    \
  } while (0)

/* Rounds t .. t + 7, after which every variable is back in its place. */
#define K kc_sha256_round_constant
#define EIGHT_ROUNDS(t, W)                                             \
  do {                                                                 \
    ROUND(a, b, c, d, e, f, g, h, W((t) + 0) + K[(t) + 0]); \
    ROUND(h, a, b, c, d, e, f, g, W((t) + 1) + K[(t) + 1]); \
    ROUND(g, h, a, b, c, d, e, f, W((t) + 2) + K[(t) + 2]); \
    ROUND(f, g, h, a, b, c, d, e, W((t) + 3) + K[(t) + 3]); \
    ROUND(e, f, g, h, a, b, c, d, W((t) + 4) + K[(t) + 4]); \
    ROUND(d, e, f, g, h, a, b, c, W((t) + 5) + K[(t) + 5]); \
    ROUND(c, d, e, f, g, h, a, b, W((t) + 6) + K[(t) + 6]); \
    ROUND(b, c, d, e, f, g, h, a, W((t) + 7) + K[(t) + 7]); \
  } while (0)

/* W[t] for t < 16 is the message itself; later words replace W[t - 16] in the ring. */
#define FIRST_WORD(t) (w[(t) & 15] = load_be32(block + 4 * ((t) & 15)))
#define LATER_WORD(t)                                                            \
  (w[(t) & 15] += small_sigma1(w[((t) - 2) & 15]) + w[((t) - 7) & 15] +          \
                  small_sigma0(w[((t) - 15) & 15]))

static void compress(uint32_t state[8], const unsigned char *block)
{
  uint32_t w[16];
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
  EIGHT_ROUNDS(0, FIRST_WORD);
  EIGHT_ROUNDS(8, FIRST_WORD);
  for (unsigned t = 16; t < 64; t += 16) {
    EIGHT_ROUNDS(t, LATER_WORD);
    EIGHT_ROUNDS(t + 8, LATER_WORD);
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
  state[5] += f;
  state[6] += g;
  state[7] += h;
}

void kc_sha256_blocks_plain(uint32_t state[8], const unsigned char *data, size_t blocks)
{
  for (; blocks > 0; blocks--, data += BLOCK_BYTES) compress(state, data);
}

static void hash_blocks(struct kc_sha256 *sha, const unsigned char *data, size_t blocks)
{
  if (sha->has_instructions) kc_sha256_blocks_x86(sha->state, data, blocks);
  else kc_sha256_blocks_plain(sha->state, data, blocks);
}

void kc_sha256_init(struct kc_sha256 *sha)
{
  KC_ASSERT(sha != NULL);
  /* Section 5.3.3: the fractional parts of the square roots of the first eight primes. */
  *sha = (struct kc_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                      0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
                            .has_instructions = kc_sha256_has_instructions()};
}

void kc_sha256_update(struct kc_sha256 *sha, const void *data, size_t bytes)
{
  KC_ASSERT(sha != NULL && sha->block_used < BLOCK_BYTES);
  KC_ASSERT(data != NULL || bytes == 0);
  const unsigned char *from = data;
  if (bytes == 0) return; /* `data` may be NULL then, to which nothing may be added */
  sha->length_bytes += bytes;
  if (sha->block_used > 0) {
    const size_t room = BLOCK_BYTES - sha->block_used;
    const size_t taken = bytes < room ? bytes : room;
    if (taken > 0) memcpy(sha->block + sha->block_used, from, taken);
    sha->block_used += taken;
    if (sha->block_used < BLOCK_BYTES) return;
    hash_blocks(sha, sha->block, 1);
    sha->block_used = 0;
    from += taken;
    bytes -= taken;
  }
  hash_blocks(sha, from, bytes / BLOCK_BYTES);
  from += bytes / BLOCK_BYTES * BLOCK_BYTES;
  bytes %= BLOCK_BYTES;
  if (bytes > 0) memcpy(sha->block, from, bytes);
  sha->block_used = bytes;
}

void kc_sha256_update_u64(struct kc_sha256 *sha, uint64_t value)
{
  unsigned char bytes[8];
  for (unsigned i = 0; i < 8; i++) bytes[i] = (unsigned char)(value >> (8 * i));
  kc_sha256_update(sha, bytes, sizeof bytes);
}

void kc_sha256_update_words(struct kc_sha256 *sha, const uint64_t *words, size_t count)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  kc_sha256_update(sha, words, count * sizeof words[0]);
#else
  for (size_t i = 0; i < count; i++) kc_sha256_update_u64(sha, words[i]);
#endif
}

/* Padding, section 5.1.1: a one bit, zeros, the length in bits as 64-bit big-endian. */
void kc_sha256_final(struct kc_sha256 *sha, unsigned char out[KC_SHA256_BYTES])
{
  KC_ASSERT(sha != NULL && sha->block_used < BLOCK_BYTES);
  KC_ASSERT(sha->length_bytes <= UINT64_MAX / 8);
  const uint64_t length_bits = sha->length_bytes * 8;
  sha->block[sha->block_used++] = 0x80;
  if (sha->block_used > BLOCK_BYTES - 8) {
    memset(sha->block + sha->block_used, 0, BLOCK_BYTES - sha->block_used);
    hash_blocks(sha, sha->block, 1);
    sha->block_used = 0;
  }
  memset(sha->block + sha->block_used, 0, BLOCK_BYTES - 8 - sha->block_used);
  store_be32(sha->block + 56, (uint32_t)(length_bits >> 32));
  store_be32(sha->block + 60, (uint32_t)length_bits);
  hash_blocks(sha, sha->block, 1);
  for (unsigned i = 0; i < 8; i++) store_be32(out + 4 * i, sha->state[i]);
  sha->block_used = SIZE_MAX; /* a use before the next init trips the assertion above */
}

void kc_sha256_final_hex(struct kc_sha256 *sha, char out[KC_SHA256_HEX_BYTES])
{
  static const char digit[] = "0123456789abcdef";
  unsigned char raw[KC_SHA256_BYTES];
  kc_sha256_final(sha, raw);
  for (unsigned i = 0; i < KC_SHA256_BYTES; i++) {
    out[2 * i] = digit[raw[i] >> 4];
    out[2 * i + 1] = digit[raw[i] & 15];
  }
  out[2 * KC_SHA256_BYTES] = '\0';
}

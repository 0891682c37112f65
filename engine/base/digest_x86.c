/* SHA-256 blocks with the SHA instructions of x86-64 (SHA-NI), chosen at run time.
 *
 * sha256rnds2 does two rounds on the working variables held as two vectors, {a b e f} and
 * {c d g h} (highest word first); sha256msg1 and sha256msg2 advance the message schedule by four
 * words. Sixteen groups of four rounds make a block; the schedule is a ring of four vectors.
 */
#include "engine/base/digest_blocks.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

bool kc_sha256_has_instructions(void)
{
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSE4_1) || !(c & bit_SSSE3)) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA) != 0;
}

#define SHA_CODE __attribute__((target("sha,sse4.1,ssse3")))

/* The next four words of the schedule, from the last sixteen. */
SHA_CODE static inline __m128i next_words(__m128i w0, __m128i w1, __m128i w2, __m128i w3)
{
  const __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4));
  return _mm_sha256msg2_epu32(sum, w3);
}

SHA_CODE static void one_block(__m128i *abef, __m128i *cdgh, const unsigned char *block)
{
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const __m128i abef_before = *abef;
  const __m128i cdgh_before = *cdgh;
  __m128i w[4];
  for (int group = 0; group < 16; group++) {
    __m128i *now = &w[group & 3];
    if (group < 4) {
      *now = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(block + 16 * group)), swap);
    } else {
      *now = next_words(*now, w[(group + 1) & 3], w[(group + 2) & 3], w[(group + 3) & 3]);
    }
    const __m128i *k = (const __m128i *)(kc_sha256_round_constant + 4 * group);
    __m128i sum = _mm_add_epi32(*now, _mm_loadu_si128(k));
    *cdgh = _mm_sha256rnds2_epu32(*cdgh, *abef, sum);
    sum = _mm_shuffle_epi32(sum, 0x0e);
    *abef = _mm_sha256rnds2_epu32(*abef, *cdgh, sum);
  }
  *abef = _mm_add_epi32(*abef, abef_before);
  *cdgh = _mm_add_epi32(*cdgh, cdgh_before);
}

SHA_CODE void kc_sha256_blocks_x86(uint32_t state[8], const unsigned char *data, size_t blocks)
{
  uint32_t *s = state;
  __m128i abef = _mm_set_epi32((int)s[0], (int)s[1], (int)s[4], (int)s[5]);
  __m128i cdgh = _mm_set_epi32((int)s[2], (int)s[3], (int)s[6], (int)s[7]);
  for (; blocks > 0; blocks--, data += 64) one_block(&abef, &cdgh, data);
  s[0] = (uint32_t)_mm_extract_epi32(abef, 3);
  s[1] = (uint32_t)_mm_extract_epi32(abef, 2);
  s[4] = (uint32_t)_mm_extract_epi32(abef, 1);
  s[5] = (uint32_t)_mm_extract_epi32(abef, 0);
  s[2] = (uint32_t)_mm_extract_epi32(cdgh, 3);
  s[3] = (uint32_t)_mm_extract_epi32(cdgh, 2);
  s[6] = (uint32_t)_mm_extract_epi32(cdgh, 1);
  s[7] = (uint32_t)_mm_extract_epi32(cdgh, 0);
}

#else

bool kc_sha256_has_instructions(void) { return false; }

void kc_sha256_blocks_x86(uint32_t state[8], const unsigned char *data, size_t blocks)
{
  kc_sha256_blocks_plain(state, data, blocks);
}

#endif

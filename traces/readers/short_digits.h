/* Up to eight decimal digits in three multiplications, without a branch on their number, which
 * varies from row to row and so defeats the branch predictor. */
#ifndef KC_TRACES_READERS_SHORT_DIGITS_H
#define KC_TRACES_READERS_SHORT_DIGITS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { KC_SHORT_DIGITS_MAX = 8 };

/* Eight bytes as one word, the first in memory lowest, whatever the host. */
static inline uint64_t kc_load_8(const char *text)
{
  uint64_t word;
  memcpy(&word, text, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  return word;
}

/* The `digits` (1 to 8) bytes before `end` as a number; the 8 bytes before `end` must be readable.
 * False when one of the digits is none; *value is then garbage. */
static inline bool kc_short_digits(const char *end, uint32_t digits, uint32_t *value)
{
  const unsigned other_bits = 64 - 8 * digits; /* what stands before the digits: becomes zeros */
  uint64_t word = kc_load_8(end - 8) ^ UINT64_C(0x3030303030303030);
  word = (word >> other_bits) << other_bits;
  const uint64_t above_nine = (word + UINT64_C(0x7676767676767676)) | word;
  const bool valid = (above_nine & UINT64_C(0x8080808080808080)) == 0;
  word = (word * 10 + (word >> 8)) & UINT64_C(0x00ff00ff00ff00ff);   /* four pairs */
  word = (word * 100 + (word >> 16)) & UINT64_C(0x0000ffff0000ffff); /* two fours */
  *value = (uint32_t)(word * 10000 + (word >> 32));
  return valid;
}

#endif

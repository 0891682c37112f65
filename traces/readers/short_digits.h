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

/* The last `digits` (1 to 8) bytes of a word from kc_load_8 as a number. False when one of them is
 * no digit; *value is then garbage. */
static inline bool kc_word_digits(uint64_t word, uint32_t digits, uint32_t *value)
{
  const unsigned other_bits = 64 - 8 * digits; /* what stands before the digits: becomes zeros */
  word ^= UINT64_C(0x3030303030303030);
  word = (word >> other_bits) << other_bits;
  const uint64_t above_nine = (word + UINT64_C(0x7676767676767676)) | word;
  const bool valid = (above_nine & UINT64_C(0x8080808080808080)) == 0;
  word = (word * 10 + (word >> 8)) & UINT64_C(0x00ff00ff00ff00ff);   /* four pairs */
  word = (word * 100 + (word >> 16)) & UINT64_C(0x0000ffff0000ffff); /* two fours */
  *value = (uint32_t)(word * 10000 + (word >> 32));
  return valid;
}

/* The `digits` (1 to 8) bytes before `end` as a number; the 8 bytes before `end` must be readable.
 * False when one of the digits is none; *value is then garbage. */
static inline bool kc_short_digits(const char *end, uint32_t digits, uint32_t *value)
{
  return kc_word_digits(kc_load_8(end - 8), digits, value);
}

/* The first of a word's eight bytes that is `byte`: 0 to 7, or 8. The lowest match is exact, since
 * borrows only reach the lanes above it. */
static inline uint32_t kc_word_find(uint64_t word, char byte)
{
  const uint64_t ones = UINT64_C(0x0101010101010101);
  const uint64_t x = word ^ (ones * (uint64_t)(unsigned char)byte);
  const uint64_t match = (x - ones) & ~x & (ones << 7);
  return match == 0 ? 8 : (uint32_t)__builtin_ctzll(match) / 8;
}

#endif

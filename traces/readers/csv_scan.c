/* The line splitter: the hottest loop of a trace load.
 *
 *   line     2023-11-16 18:17:03.9799600,4808,10          blocks of 64 bytes, words of 8
 *   commas   ...........................1....1..          one bit a byte, from the words
 *
 * A word is compared with ',' and '"' in all its eight lanes at once. XOR with the wanted byte
 * turns matches into zero lanes, and
 *
 *   ~(((x & 0x7f..) + 0x7f..) | x | 0x7f..)
 *
 * has 0x80 in exactly the zero lanes. The shorter (x - 0x01..) & ~x & 0x80.. will not do: a borrow
 * out of a match also marks a following 0x01 lane, and ',' ^ '-' is 0x01. The bits of a block are
 * then walked in one loop that turns as often as the row has commas: the same number for every row
 * of a file, so the branch predictor learns it, which it cannot when commas fall anywhere in words.
 *
 * Where SSE2 is part of the architecture (x86-64), vectors of sixteen bytes take the place of the
 * words; KC_CSV_PORTABLE leaves them out, for the tests.
 *
 * A line with a quote anywhere starts over in the byte-wise splitter: quotes are rare, and one
 * plain loop is easier to trust than a fast one that knows two grammars. No memory is owned. */
#include "traces/readers/csv_scan.h"

#if defined(__SSE2__) && !defined(KC_CSV_PORTABLE)
#include <emmintrin.h>
#endif

#include "traces/readers/short_digits.h"

#define LANES(byte) (UINT64_C(0x0101010101010101) * (uint64_t)(unsigned char)(byte))
#define LOW7 LANES(0x7f)

static inline uint64_t lanes_equal(uint64_t word, uint64_t pattern)
{
  const uint64_t x = word ^ pattern;
  return ~(((x & LOW7) + LOW7) | x | LOW7);
}

static inline bool is_space(char c)
{
  return c == ' ' || c == '\t';
}

/* Stores line[begin, end) without the spaces around it as cell `index`, if there is room. */
static inline void put_cell(struct kc_csv_row *row, uint32_t index, const char *line, size_t begin,
                            size_t end)
{
  if (begin < end && (line[begin] <= ' ' || line[end - 1] <= ' ')) { /* seldom: one test a side */
    while (begin < end && is_space(line[begin])) begin++;
    while (begin < end && is_space(line[end - 1])) end--;
  }
  if (index >= KC_TRACE_COLUMNS_MAX) return;
  row->cell[index].text = line + begin;
  row->cell[index].bytes = (uint32_t)(end - begin);
}

static enum kc_csv_fault fault_at(struct kc_csv_row *row, size_t offset, enum kc_csv_fault fault)
{
  row->fault_offset = (uint32_t)offset;
  return fault;
}

/* Reads the quoted cell whose opening quote is at *at; leaves *at behind the spaces after it. */
static enum kc_csv_fault take_quoted(struct kc_csv_row *row, const char *line, size_t bytes,
                                     size_t *at)
{
  const size_t open = *at;
  size_t close = open + 1;
  KC_ASSERT(open < bytes && line[open] == '"');
  while (close < bytes && (line[close] != '"' || (close + 1 < bytes && line[close + 1] == '"'))) {
    close += line[close] == '"' ? 2 : 1;
  }
  if (close >= bytes) return fault_at(row, open, KC_CSV_QUOTE_UNCLOSED);
  put_cell(row, row->count++, line, open + 1, close);
  row->quoted++;
  *at = close + 1;
  while (*at < bytes && is_space(line[*at])) (*at)++;
  if (*at < bytes && line[*at] != ',') return fault_at(row, *at, KC_CSV_QUOTE_TRAILED);
  return KC_CSV_OK;
}

/* Reads the plain cell that starts at *at; leaves *at on its comma or at the end. */
static enum kc_csv_fault take_plain(struct kc_csv_row *row, const char *line, size_t bytes,
                                    size_t *at)
{
  const size_t begin = *at;
  while (*at < bytes && line[*at] != ',') {
    if (line[*at] == '"') return fault_at(row, *at, KC_CSV_QUOTE_INSIDE);
    (*at)++;
  }
  put_cell(row, row->count++, line, begin, *at);
  return KC_CSV_OK;
}

static enum kc_csv_fault split_quoted(struct kc_csv_row *row, const char *line, size_t bytes)
{
  size_t at = 0;
  row->count = 0;
  for (;;) {
    while (at < bytes && is_space(line[at])) at++;
    const bool quoted = at < bytes && line[at] == '"';
    const enum kc_csv_fault fault =
        quoted ? take_quoted(row, line, bytes, &at) : take_plain(row, line, bytes, &at);
    if (fault != KC_CSV_OK) return fault;
    if (at >= bytes) return KC_CSV_OK;
    at++; /* the comma */
  }
}

/* The 0x80 bits of eight lanes -> eight bits, lane 0 lowest: the multiplier moves bit 8 i of the
 * shifted word to bit 56 + i, and no two of its partial products meet there. */
static inline uint64_t lanes_to_bits(uint64_t lanes)
{
  return ((lanes >> 7) * UINT64_C(0x0102040810204080)) >> 56;
}

static inline uint64_t word_commas(uint64_t word, uint64_t *quotes)
{
  *quotes |= lanes_equal(word, LANES('"'));
  return lanes_to_bits(lanes_equal(word, LANES(',')));
}

/* Commas of text[0, bytes), 1 <= bytes <= 64, one bit a byte; *quotes becomes non-zero if one is
 * seen. The last word, which may be partial, is read so that it ends with the text, and shifted
 * down: the loop turns once a word, whole or not, and lines of like length take like turns. */
static inline uint64_t word_block_commas(const char *text, size_t bytes, uint64_t *quotes)
{
  const size_t last = (bytes - 1) / 8 * 8; /* where the last word starts */
  uint64_t bits = 0, word = 0;
  for (size_t at = 0; at < last; at += 8) {
    bits |= word_commas(kc_load_8(text + at), quotes) << at;
  }
  if (bytes >= 8) {
    word = kc_load_8(text + bytes - 8) >> (64 - 8 * (bytes - last));
  } else {
    for (size_t i = bytes; i > 0; i--) word = word << 8 | (unsigned char)text[i - 1];
  }
  return bits | word_commas(word, quotes) << last;
}

#if defined(__SSE2__) && !defined(KC_CSV_PORTABLE)

/* The same, sixteen bytes at a time, where every processor of the architecture can. */
static inline uint64_t block_commas(const char *text, size_t bytes, uint64_t *quotes)
{
  enum { VECTOR_BYTES = 16 };
  const __m128i comma = _mm_set1_epi8(','), quote = _mm_set1_epi8('"');
  const size_t last = (bytes - 1) / VECTOR_BYTES * VECTOR_BYTES;
  uint64_t bits = 0;
  unsigned seen = 0;
  if (bytes < VECTOR_BYTES) return word_block_commas(text, bytes, quotes);
  for (size_t at = 0; at < last; at += VECTOR_BYTES) {
    const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(text + at));
    bits |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(v, comma)) << at;
    seen |= (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(v, quote));
  }
  const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(text + bytes - VECTOR_BYTES));
  const unsigned end = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(v, comma));
  seen |= (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(v, quote));
  *quotes |= seen;
  return bits | (uint64_t)(end >> (VECTOR_BYTES - (bytes - last))) << last;
}

#else

static inline uint64_t block_commas(const char *text, size_t bytes, uint64_t *quotes)
{
  return word_block_commas(text, bytes, quotes);
}

#endif

enum kc_csv_fault kc_csv_split(struct kc_csv_row *row, const char *line, size_t bytes)
{
  enum { BLOCK_BYTES = 64 };
  KC_ASSERT(bytes <= KC_TRACE_LINE_BYTES_MAX);
  uint64_t quotes = 0;
  uint32_t count = 0; /* in a register; row->count may alias what a cell store writes */
  size_t begin = 0;
  row->quoted = 0;
  row->fault_offset = 0;
  for (size_t at = 0; at < bytes; at += BLOCK_BYTES) {
    const size_t block = bytes - at < BLOCK_BYTES ? bytes - at : BLOCK_BYTES;
    uint64_t comma = block_commas(line + at, block, &quotes);
    if (quotes != 0) return split_quoted(row, line, bytes);
    for (; comma != 0; comma &= comma - 1) {
      const size_t end = at + (unsigned)__builtin_ctzll(comma);
      put_cell(row, count++, line, begin, end);
      begin = end + 1;
    }
  }
  put_cell(row, count++, line, begin, bytes);
  row->count = count;
  KC_ASSERT(row->count >= 1);
  return KC_CSV_OK;
}

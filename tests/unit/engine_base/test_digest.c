/* SHA-256 against published digests, in every way of cutting the message; the mixer. */
#include "engine/base/digest.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/digest_blocks.h"
#include "engine/base/random.h"
#include "tests/unit/engine_base/expect_abort.h"

static void assert_digest(const void *data, size_t bytes, const char *expected)
{
  struct kc_sha256 sha;
  char hex[KC_SHA256_HEX_BYTES];
  kc_sha256_init(&sha);
  kc_sha256_update(&sha, data, bytes);
  kc_sha256_final_hex(&sha, hex);
  assert_string_equal(hex, expected);
}

struct vector {
  const char *message;
  const char *digest;
};

/* NIST, "Cryptographic Standards and Guidelines: Examples with Intermediate Values", SHA-256, and
 * the first vectors of FIPS 180-4's predecessors. */
static const struct vector vectors[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqr"
     "lmnopqrsmnopqrstnopqrstu",
     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
};

static const char million_a[] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

static void published_messages(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
    assert_digest(vectors[i].message, strlen(vectors[i].message), vectors[i].digest);
  }
}

static void a_million_times_a(void **state)
{
  (void)state;
  enum { MILLION = 1000000 };
  char *data = malloc(MILLION);
  assert_non_null(data);
  memset(data, 'a', MILLION);
  assert_digest(data, MILLION, million_a);

  struct kc_sha256 sha; /* the same in pieces of 1, 2, 3, ... 200, 1, ... bytes */
  char hex[KC_SHA256_HEX_BYTES];
  kc_sha256_init(&sha);
  size_t piece = 1;
  for (size_t done = 0; done < MILLION; piece = piece % 200 + 1) {
    const size_t bytes = piece < MILLION - done ? piece : MILLION - done;
    kc_sha256_update(&sha, data + done, bytes);
    done += bytes;
  }
  kc_sha256_final_hex(&sha, hex);
  assert_string_equal(hex, million_a);
  free(data);
}

/* Lengths around the block and the padding boundary. Digests of n times 'a', from coreutils
 * sha256sum. */
static void lengths_around_the_padding(void **state)
{
  (void)state;
  static const struct {
    size_t bytes;
    const char *digest;
  } rows[] = {
      {1, "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"},
      {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
      {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
      {57, "f13b2d724659eb3bf47f2dd6af1accc87b81f09f59f2b75e5c0bed6589dfe8c6"},
      {63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
      {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
      {65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"},
      {119, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb"},
      {120, "2f3d335432c70b580af0e8e1b3674a7c020d683aa5f73aaaedfdc55af904c21c"},
      {127, "c57e9278af78fa3cab38667bef4ce29d783787a2f731d4e12200270f0c32320a"},
      {128, "6836cf13bac400e9105071cd6af47084dfacad4e5e302c94bfed24e013afb73e"},
      {129, "c12cb024a2e5551cca0e08fce8f1c5e314555cc3fef6329ee994a3db752166ae"},
      {200, "c2a908d98f5df987ade41b5fce213067efbcc21ef2240212a41e54b5e7c28ae5"},
  };
  char text[200];
  memset(text, 'a', sizeof text);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    assert_digest(text, rows[i].bytes, rows[i].digest);
  }
}

/* "abcdefgh" as one little-endian word. */
static void words_are_little_endian(void **state)
{
  (void)state;
  struct kc_sha256 sha;
  char hex[KC_SHA256_HEX_BYTES];
  kc_sha256_init(&sha);
  kc_sha256_update_u64(&sha, UINT64_C(0x6867666564636261));
  kc_sha256_final_hex(&sha, hex);
  assert_string_equal(hex, "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab");
  const uint64_t word = UINT64_C(0x6867666564636261);
  kc_sha256_init(&sha);
  kc_sha256_update_words(&sha, &word, 1);
  kc_sha256_final_hex(&sha, hex);
  assert_string_equal(hex, "9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab");
}

static void nothing_may_be_added_as_null(void **state)
{
  (void)state;
  struct kc_sha256 sha;
  char hex[KC_SHA256_HEX_BYTES];
  kc_sha256_init(&sha);
  kc_sha256_update(&sha, NULL, 0);
  kc_sha256_update(&sha, "abc", 3);
  kc_sha256_update(&sha, NULL, 0);
  kc_sha256_final_hex(&sha, hex);
  assert_string_equal(hex, vectors[1].digest);
}

static void raw_and_hex_agree(void **state)
{
  (void)state;
  static const unsigned char start[] = {0xba, 0x78, 0x16, 0xbf}; /* of "abc" */
  static const unsigned char end[] = {0xf2, 0x00, 0x15, 0xad};
  struct kc_sha256 sha;
  unsigned char raw[KC_SHA256_BYTES];
  kc_sha256_init(&sha);
  kc_sha256_update(&sha, "abc", 3);
  kc_sha256_final(&sha, raw);
  assert_memory_equal(raw, start, 4);
  assert_memory_equal(raw + 28, end, 4);
}

static void update_after_final(void *context)
{
  struct kc_sha256 sha;
  unsigned char raw[KC_SHA256_BYTES];
  (void)context;
  kc_sha256_init(&sha);
  kc_sha256_final(&sha, raw);
  kc_sha256_update(&sha, "x", 1);
}

static void reuse_without_init_is_our_mistake(void **state)
{
  (void)state;
  expect_abort(update_after_final, NULL, "block_used");
}

/* Undoing the three steps shows that no two inputs meet: x ^ (x >> s) is undone by repeating the
 * shift, a multiplication by the inverse modulo 2^64. */
static uint64_t unshift(uint64_t x, unsigned shift)
{
  uint64_t y = x;
  for (unsigned done = shift; done < 64; done += shift) y = x ^ (y >> shift);
  return y;
}

static uint64_t inverse(uint64_t odd)
{
  uint64_t guess = odd; /* right in 3 bits; each round doubles them */
  for (unsigned i = 0; i < 6; i++) guess *= 2 - odd * guess;
  return guess;
}

static void the_mixer_can_be_undone(void **state)
{
  (void)state;
  uint64_t draws = 5;
  for (unsigned i = 0; i < 10000; i++) {
    const uint64_t x = i < 64 ? UINT64_C(1) << i : kc_splitmix64(&draws);
    uint64_t y = unshift(kc_mix64(x), 31) * inverse(UINT64_C(0x94d049bb133111eb));
    y = unshift(y, 27) * inverse(UINT64_C(0xbf58476d1ce4e5b9));
    assert_true(unshift(y, 30) == x);
  }
}

/* A flipped input bit flips each output bit half the time: 64 x 64 cells, 4,096 trials each, six
 * standard deviations (32) of 2,048. */
static void the_mixer_spreads_every_bit(void **state)
{
  (void)state;
  enum { TRIALS = 4096 };
  uint64_t draws = 9;
  for (unsigned in = 0; in < 64; in++) {
    unsigned flips[64] = {0};
    for (unsigned trial = 0; trial < TRIALS; trial++) {
      const uint64_t x = kc_splitmix64(&draws);
      const uint64_t changed = kc_mix64(x) ^ kc_mix64(x ^ (UINT64_C(1) << in));
      for (unsigned out = 0; out < 64; out++) flips[out] += (unsigned)(changed >> out) & 1;
    }
    for (unsigned out = 0; out < 64; out++) assert_in_range(flips[out], 2048 - 192, 2048 + 192);
  }
}

/* The instructions against plain C: random states and data, 0 to 9 blocks. */
static void both_compressions_agree(void **state)
{
  (void)state;
  if (!kc_sha256_has_instructions()) skip();
  struct kc_random random;
  kc_random_init(&random, 7, "blocks", 0);
  for (int round = 0; round < 2000; round++) {
    unsigned char data[9 * 64 + 3];
    uint32_t plain[8], fast[8];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)kc_random_u64(&random);
    for (int i = 0; i < 8; i++) plain[i] = fast[i] = (uint32_t)kc_random_u64(&random);
    const size_t blocks = kc_random_below(&random, 10);
    const size_t offset = kc_random_below(&random, 4);
    kc_sha256_blocks_plain(plain, data + offset, blocks);
    kc_sha256_blocks_x86(fast, data + offset, blocks);
    assert_memory_equal(plain, fast, sizeof plain);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(published_messages),
      cmocka_unit_test(a_million_times_a),
      cmocka_unit_test(lengths_around_the_padding),
      cmocka_unit_test(words_are_little_endian),
      cmocka_unit_test(nothing_may_be_added_as_null),
      cmocka_unit_test(raw_and_hex_agree),
      cmocka_unit_test(reuse_without_init_is_our_mistake),
      cmocka_unit_test(the_mixer_can_be_undone),
      cmocka_unit_test(the_mixer_spreads_every_bit),
      cmocka_unit_test(both_compressions_agree),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

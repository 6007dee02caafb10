#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <new>
#include <random>
#include <thread>

#include "kept_arena.h"

using namespace gd2fs;

namespace {

constexpr std::size_t ARENA = 12 * MiB;
constexpr std::size_t THREADS = 2;
constexpr std::size_t KEYS = 24;  // of each thread
constexpr std::size_t BYTES_MAX = 150'000;

enum class Told : std::uint64_t { nothing, putting, put, dropping, dropped };

/// What a process that may end at any moment tells of each key. Two words, of which the first one
/// says which write the second one is about.
struct Diary {
  struct Key {
    std::atomic<std::uint64_t> write{0};
    std::atomic<Told> told{Told::nothing};
  };
  std::array<std::array<Key, KEYS>, THREADS> keys;
  std::atomic<std::uint64_t> steps{0};
};

/// Memory that a child shares with its parent.
class SharedDiary {
 public:
  SharedDiary() {
    void* const at =
        mmap(nullptr, sizeof(Diary), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(at != MAP_FAILED);
    diary_ = ::new (at) Diary;
  }
  ~SharedDiary() { munmap(diary_, sizeof(Diary)); }
  SharedDiary(const SharedDiary&) = delete;
  SharedDiary& operator=(const SharedDiary&) = delete;
  Diary& operator*() const { return *diary_; }
  Diary* operator->() const { return diary_; }

 private:
  Diary* diary_ = nullptr;
};

std::string name_of(std::size_t thread, std::size_t key) {
  return page_name("ns", std::to_string(thread) + "-" + std::to_string(key));
}

/// Of one key, again and again: dropped, then put with other bytes.
void write_for_ever(Store& store, Diary& diary, std::size_t thread, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::uint64_t write = seed << 32 | 1;; ++write) {
    const std::size_t at = random() % KEYS;
    Diary::Key& key = diary.keys[thread][at];
    if (key.told == Told::put || key.told == Told::putting) {
      key.told = Told::dropping;
      store.drop_page(name_of(thread, at));
      key.told = Told::dropped;
    }
    ++diary.steps;
    key.write = write;
    key.told = Told::putting;
    if (put_page(store, name_of(thread, at), 1 + random() % BYTES_MAX, write) == Status::ok)
      key.told = Told::put;
    ++diary.steps;
  }
}

/// Writes until it is killed. Nothing of the test's own frame runs after it.
[[noreturn]] void live(const KeptArena& kept, Diary& diary, std::uint64_t seed) {
  auto store = Store::open(kept.options());
  if (!store) _exit(1);
  std::thread second([&] { write_for_ever(**store, diary, 1, seed * 2 + 1); });
  write_for_ever(**store, diary, 0, seed * 2);
  _exit(1);
}

struct Found {
  std::size_t there = 0, lost = 0;
};

/// Looks at every key: what is there has the bytes of the write that was told last.
Found look(Store& store, Diary& diary) {
  Found found;
  for (std::size_t thread = 0; thread < THREADS; ++thread) {
    for (std::size_t at = 0; at < KEYS; ++at) {
      Diary::Key& key = diary.keys[thread][at];
      const PieceRef page = store.find_page(name_of(thread, at), false);
      const bool is_there = page != nullptr;
      if (is_there) REQUIRE(is_checked(page));
      if (is_there) REQUIRE(is_filled_with(page, key.write));
      if (is_there) REQUIRE((key.told != Told::dropped && key.told != Told::nothing));
      if (!is_there && key.told == Told::put) ++found.lost;
      found.there += is_there ? 1 : 0;
      key.told = is_there ? Told::put : Told::dropped;
    }
  }
  return found;
}

}  // namespace

TEST_CASE(
    "killed at any moment, a store has all that was acknowledged and nothing that was dropped") {
  const KeptArena kept(ARENA);
  const SharedDiary diary;
  std::mt19937_64 random(1);
  std::size_t there = 0;
  for (std::uint64_t round = 1; round <= 60; ++round) {
    CAPTURE(round);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) live(kept, *diary, round);
    const std::uint64_t until = diary->steps + 1 + random() % 600;
    int status = 0;
    const bool is_far =
        wait_until([&] { return diary->steps >= until || waitpid(child, &status, WNOHANG) != 0; });
    kill(child, SIGKILL);
    if (!WIFEXITED(status) || status == 0) waitpid(child, &status, 0);
    REQUIRE(is_far);
    REQUIRE(WIFSIGNALED(status));

    const auto store = kept.open();
    REQUIRE(store->recovery().fault == "");
    const Found found = look(*store, *diary);
    there += found.there;
    // The arena is large enough for all of them: nothing was evicted.
    CHECK(found.lost == 0);
    CHECK(store->recovery().unsound == 0);
    REQUIRE(sum(store->counts()) == ARENA);
  }
  CHECK(there > 60 * KEYS / 2);
}

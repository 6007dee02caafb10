#include "arena_map.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

namespace gd2fs {
namespace {

constexpr int SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

/// All mappings of this process.
class Mappings {
 public:
  static Mappings& all() {
    static Mappings* const mappings = new Mappings;  // for ever: a fork may come during the exit
    return *mappings;
  }

  void add(std::span<const std::byte> memory) {
    const std::lock_guard lock(mutex_);
    memories_.push_back(memory);
  }
  void remove(std::span<const std::byte> memory) {
    const std::lock_guard lock(mutex_);
    std::erase_if(memories_, [&](const auto& each) { return each.data() == memory.data(); });
  }

 private:
  Mappings() { pthread_atfork(lock_all, unlock_all, bar_all); }

  static void lock_all() { all().mutex_.lock(); }
  static void unlock_all() { all().mutex_.unlock(); }
  static void bar_all() {
    for (const auto& memory : all().memories_) {
      // Invariant: MADV_DONTFORK has left just this hole, and no other thread runs here yet.
      mmap(const_cast<std::byte*>(memory.data()), memory.size(), PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    }
    all().mutex_.unlock();
  }

  std::mutex mutex_;  // Guards: memories_. Held across a fork.
  std::vector<std::span<const std::byte>> memories_;
};

Error refusal(const std::string& why) { return {"the node's arena cannot be mapped: " + why, ""}; }

}  // namespace

Result<ArenaMapRef> ArenaMap::open(const tcp::Descriptor& descriptor, std::uint64_t bytes) {
  struct stat file {};
  if (!descriptor || fstat(descriptor.get(), &file) != 0)
    return refusal("no descriptor came with it");
  if (file.st_size < 0 || static_cast<std::uint64_t>(file.st_size) != bytes)
    return refusal("it has " + std::to_string(file.st_size) + " bytes, not " +
                   std::to_string(bytes));
  const int seals = fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & SEALS) != SEALS) return refusal("it is not sealed");
  void* const at = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor.get(), 0);
  if (at == MAP_FAILED) return refusal(std::strerror(errno));
  madvise(at, bytes, MADV_DONTFORK);
  madvise(at, bytes, MADV_DONTDUMP);
  const std::span memory(static_cast<const std::byte*>(at), bytes);
  Mappings::all().add(memory);
  return ArenaMapRef(new ArenaMap(memory, file.st_dev, file.st_ino));
}

ArenaMap::~ArenaMap() {
  Mappings::all().remove(memory_);
  // The mapping was made by `open` and is given to nobody but as a reference to this.
  munmap(const_cast<std::byte*>(memory_.data()), memory_.size());
}

bool ArenaMap::is_of(const tcp::Descriptor& descriptor) const noexcept {
  struct stat file {};
  return fstat(descriptor.get(), &file) == 0 && file.st_dev == device_ && file.st_ino == inode_;
}

}  // namespace gd2fs

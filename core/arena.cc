#include "arena.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "limits.h"
#include "numa.h"

namespace gd2fs {

namespace {

constexpr std::size_t HUGE_BYTES = 2 * MiB;
constexpr std::size_t ARENA_BYTES_MAX =
    8 * TiB;  // records are numbered in 32 bits, by at most 2 KiB (ledger.h)
constexpr auto HUGETLBFS_TYPE = 0x958458f6;
constexpr int LOCK_TRIES = 50;
constexpr auto LOCK_PAUSE = std::chrono::milliseconds(10);
constexpr unsigned MEMFD_HUGE_2MB = 21u << 26;  // MFD_HUGE_2MB: log2 of the page size, shifted

std::string size_text(std::uint64_t bytes) {
  const std::pair<std::uint64_t, const char*> units[] = {
      {TiB, " TiB"}, {GiB, " GiB"}, {MiB, " MiB"}, {KiB, " KiB"}};
  for (const auto& [unit, name] : units) {
    if (bytes < unit) continue;
    const std::uint64_t tenths = bytes / unit * 10 + bytes % unit * 10 / unit;
    return std::to_string(tenths / 10) +
           (tenths % 10 != 0 ? "." + std::to_string(tenths % 10) : "") + name;
  }
  return std::to_string(bytes) + " bytes";
}

// A number of /proc/meminfo; 0 when it is not there.
std::uint64_t meminfo(const std::string& field) {
  std::ifstream lines("/proc/meminfo");
  std::string name;
  for (std::uint64_t value = 0; lines >> name >> value; lines.ignore(64, '\n')) {
    if (name == field + ":") return value;
  }
  return 0;
}

std::uint64_t number_in(const char* path, std::uint64_t otherwise) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : otherwise;
}

// What may still be used: of the machine, and of the container where it has a limit of its own.
std::uint64_t memory_available() {
  constexpr auto UNLIMITED = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t machine = meminfo("MemAvailable") * KiB;
  const std::uint64_t limit = number_in("/sys/fs/cgroup/memory.max", UNLIMITED);
  const std::uint64_t used = number_in("/sys/fs/cgroup/memory.current", 0);
  return std::min(machine, limit == UNLIMITED ? UNLIMITED : limit - std::min(limit, used));
}

std::optional<Error> memory_fault(const char* what, std::size_t bytes) {
  const std::uint64_t available = memory_available();
  if (available >= bytes) return std::nullopt;
  return Error{"cannot reserve " + size_text(bytes) + " of " + what + ": " + size_text(available) +
                   " available",
               "ask for a smaller arena"};
}

Error system_fault(const std::string& what, int fault) {
  return {what + ": " + std::strerror(fault), ""};
}

struct Mapping {
  std::span<std::byte> memory;
  int descriptor = -1;
};

// A child's copy would fault the whole arena in again; a core dump would carry everyone's cache.
void keep_private(std::span<std::byte> memory) {
  madvise(memory.data(), memory.size(), MADV_DONTFORK);
  madvise(memory.data(), memory.size(), MADV_DONTDUMP);
}

Result<Mapping> map_shared(int descriptor, std::size_t bytes, const std::string& what) {
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (at == MAP_FAILED)
    return system_fault("cannot map " + size_text(bytes) + " of " + what, errno);
  return Mapping{{static_cast<std::byte*>(at), bytes}, descriptor};
}

Result<Mapping> map_hugetlb(std::size_t bytes) {
  const std::string what = "hugepages";
  const int descriptor =
      memfd_create("gd2fs-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB | MEMFD_HUGE_2MB);
  if (descriptor < 0) return system_fault("cannot make a memfd of 2 MiB " + what, errno);
  if (ftruncate(descriptor, static_cast<off_t>(bytes)) == 0) {
    // The kernel sets the pages of a shared hugetlb mapping aside here, or refuses: no SIGBUS
    // later.
    if (auto mapping = map_shared(descriptor, bytes, what)) return mapping;
  }
  close(descriptor);
  const std::uint64_t free = (meminfo("HugePages_Free") - meminfo("HugePages_Rsvd")) * HUGE_BYTES;
  const std::uint64_t pages =
      meminfo("HugePages_Total") + (bytes - std::min<std::uint64_t>(bytes, free)) / HUGE_BYTES;
  return Error{
      "cannot reserve " + size_text(bytes) + " of " + what + ": " + size_text(free) +
          " free on this machine",
      "run `sysctl vm.nr_hugepages=" + std::to_string(pages) + "`, or start with `--arena auto`"};
}

bool is_thp_allowed() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string text;
  return std::getline(file, text) && text.find("[never]") == std::string::npos;
}

/// Room for `bytes` that starts at a multiple of a huge page; MAP_FAILED without.
std::byte* reserve_aligned(std::size_t bytes) {
  const std::size_t mapped = bytes + HUGE_BYTES;
  void* const got = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  auto* const first = static_cast<std::byte*>(got);
  if (got == MAP_FAILED) return first;
  // Invariant: what is cut off here lies outside [at, at + bytes).
  const std::size_t before =
      (HUGE_BYTES - reinterpret_cast<std::uintptr_t>(first) % HUGE_BYTES) % HUGE_BYTES;
  std::byte* const at = first + before;
  if (before > 0) munmap(first, before);
  if (before < HUGE_BYTES) munmap(at + bytes, HUGE_BYTES - before);
  return at;
}

// Shared memory of ordinary pages, or of huge ones where the machine gives them to shared memory.
Result<Mapping> map_memfd(std::size_t bytes) {
  const char* what = "shared memory";
  if (auto fault = memory_fault(what, bytes)) return *fault;
  const int descriptor = memfd_create("gd2fs-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return system_fault("cannot make a memfd", errno);
  std::byte* const at = reserve_aligned(bytes);
  // Invariant: MAP_FIXED replaces just what was reserved for it.
  if (at != MAP_FAILED && ftruncate(descriptor, static_cast<off_t>(bytes)) == 0 &&
      mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor, 0) == at) {
    madvise(at, bytes, MADV_HUGEPAGE);
    return Mapping{{at, bytes}, descriptor};
  }
  const int fault = errno;
  if (at != MAP_FAILED) munmap(at, bytes);
  close(descriptor);
  return system_fault("cannot map " + size_text(bytes) + " of " + what, fault);
}

/// True: nobody can write to it any more but through the mapping that is there.
bool seal(int descriptor) {
  constexpr int SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
  return fcntl(descriptor, F_ADD_SEALS, SEALS) == 0;
}

// Anonymous memory that starts at a multiple of a huge page.
Result<Mapping> map_anonymous(std::size_t bytes, bool is_huge) {
  const char* what = is_huge ? "transparent huge pages" : "plain memory";
  if (is_huge && !is_thp_allowed()) {
    return Error{"cannot take transparent huge pages: they are switched off on this machine",
                 "write `madvise` to /sys/kernel/mm/transparent_hugepage/enabled, or start with "
                 "`--arena auto`"};
  }
  if (auto fault = memory_fault(what, bytes)) return *fault;
  std::byte* const at = reserve_aligned(bytes);
  if (at == MAP_FAILED)
    return system_fault("cannot map " + size_text(bytes) + " of " + what, errno);
  if (madvise(at, bytes, is_huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) != 0 && is_huge) {
    const int fault = errno;
    munmap(at, bytes);
    return system_fault("cannot take transparent huge pages", fault);
  }
  return Mapping{{at, bytes}, -1};
}

// Takes the room for the whole file now, at the nodes of its regions: a page that is missing later
// would be a SIGBUS.
std::optional<Error> fill_file(int descriptor, const ArenaOptions& options, std::size_t bytes) {
  const std::string& path = options.path;
  struct stat now {};
  struct statfs disk {};
  if (fstat(descriptor, &now) != 0 || fstatfs(descriptor, &disk) != 0)
    return system_fault("cannot look at " + path, errno);
  const std::uint64_t held = static_cast<std::uint64_t>(now.st_blocks) * 512;
  const std::uint64_t free =
      static_cast<std::uint64_t>(disk.f_bavail) * static_cast<std::uint64_t>(disk.f_bsize);
  const bool is_hugetlbfs = static_cast<std::uint64_t>(disk.f_type) == HUGETLBFS_TYPE;
  const Error full{
      "cannot make " + path + " " + size_text(bytes) + " long: " + size_text(free) + " free there",
      is_hugetlbfs ? "raise `vm.nr_hugepages`, or ask for a smaller arena"
                   : "ask for a smaller arena"};
  if (!is_hugetlbfs && held + free < bytes) return full;
  if (ftruncate(descriptor, static_cast<off_t>(bytes)) != 0)
    return system_fault("cannot make " + path + " longer", errno);
  if (!options.nodes.empty()) {
    // The nodes are kept with the open file, not with this mapping.
    if (auto mapping = map_shared(descriptor, bytes, path)) {
      static_cast<void>(numa::prefer(mapping->memory, options.region_bytes, options.nodes));
      munmap(mapping->memory.data(), mapping->memory.size());
    }
  }
  if (fallocate(descriptor, 0, 0, static_cast<off_t>(bytes)) == 0 || errno == EOPNOTSUPP)
    return std::nullopt;
  return errno == ENOSPC || errno == ENOMEM ? full
                                            : system_fault("cannot take room for " + path, errno);
}

Error open_fault(const std::string& path, int fault) {
  Error error = system_fault("cannot open arena file " + path, fault);
  switch (fault) {
    case ENOENT:
    case ENOTDIR: error.hint = "make its directory first, or name a file elsewhere"; break;
    case EISDIR: error.hint = "name a file in it: `--arena file:" + path + "/arena`"; break;
    case ELOOP: error.hint = "name the file itself: links are not followed"; break;
    case EACCES:
    case EPERM:
    case EROFS: error.hint = "name a file that this user may write"; break;
    default: error.hint = "name another file: `--arena file:PATH`";
  }
  return error;
}

/// An open arena file, locked. Given up, it is as it was before: gone when it was made here.
class ArenaFile {
 public:
  explicit ArenaFile(std::string path) : path_(std::move(path)) {}
  ArenaFile(const ArenaFile&) = delete;
  ArenaFile& operator=(const ArenaFile&) = delete;
  ~ArenaFile() {
    if (descriptor_ < 0) return;
    // Only under the lock: else it may be the file of a node that was quicker.
    if (is_locked_ && is_new_) ::unlink(path_.c_str());
    if (is_locked_ && !is_new_ && ftruncate(descriptor_, first_bytes_) != 0) errno = 0;
    close(descriptor_);
  }

  int open() {
    constexpr int FLAGS = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
    descriptor_ = ::open(path_.c_str(), FLAGS | O_CREAT | O_EXCL, 0600);
    is_new_ = descriptor_ >= 0;
    if (!is_new_ && errno == EEXIST) descriptor_ = ::open(path_.c_str(), FLAGS);
    return descriptor_;
  }
  bool lock(off_t first_bytes) {
    first_bytes_ = first_bytes;
    // A node that was killed a moment ago may still be on its way out: the kernel lets go of its
    // mappings a little after it is gone.
    for (int tries = 0; tries < LOCK_TRIES && !is_locked_; ++tries) {
      if (tries > 0) std::this_thread::sleep_for(LOCK_PAUSE);
      is_locked_ = flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
    }
    return is_locked_;
  }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  const std::string path_;
  int descriptor_ = -1;
  bool is_new_ = false;
  bool is_locked_ = false;
  off_t first_bytes_ = 0;
};

Result<Mapping> map_file(const ArenaOptions& options, std::size_t bytes) {
  const std::string& path = options.path;
  ArenaFile file(path);
  const int descriptor = file.open();
  if (descriptor < 0) return open_fault(path, errno);
  struct stat now {};
  if (fstat(descriptor, &now) != 0 || !S_ISREG(now.st_mode)) {
    return Error{"cannot use " + path + " as an arena: it is not a regular file",
                 "name a file: `--arena file:PATH`"};
  }
  const auto now_bytes = static_cast<std::size_t>(now.st_size);
  if (now_bytes != 0 && now_bytes != bytes) {
    return Error{"cannot use " + path + " as an arena of " + size_text(bytes) + ": it holds " +
                     size_text(now_bytes),
                 "remove the file, or ask for an arena of its size"};
  }
  if (!file.lock(now.st_size)) {
    return Error{"cannot use " + path + " as an arena: another node holds it",
                 "give each node a file of its own"};
  }
  if (auto fault = fill_file(descriptor, options, bytes)) return *fault;
  auto mapping = map_shared(descriptor, bytes, path);
  if (mapping) file.release();
  return mapping;
}

Result<Mapping> map_rung(Rung rung, const ArenaOptions& options, std::size_t bytes) {
  switch (rung) {
    case Rung::hugetlb: return map_hugetlb(bytes);
    case Rung::memfd: return map_memfd(bytes);
    case Rung::thp: return map_anonymous(bytes, true);
    case Rung::file: return map_file(options, bytes);
    default: return map_anonymous(bytes, false);
  }
}

}  // namespace

Result<ArenaOptions> parse_arena(const std::string& text, std::size_t bytes) {
  ArenaOptions options;
  options.bytes = bytes;
  if (text == "auto") return options;
  const std::pair<const char*, Rung> names[] = {{"hugetlb", Rung::hugetlb},
                                                {"memfd", Rung::memfd},
                                                {"thp", Rung::thp},
                                                {"plain", Rung::plain}};
  for (const auto& [name, rung] : names) {
    if (text != name) continue;
    options.rung = rung;
    return options;
  }
  if (text.rfind("file:", 0) == 0 && text.size() > 5) {
    options.rung = Rung::file;
    options.path = text.substr(5);
    return options;
  }
  return Error{"unknown arena `" + text + "`",
               "use `auto`, `hugetlb`, `memfd`, `thp`, `plain` or `file:PATH`"};
}

std::size_t Arena::whole_bytes(std::size_t bytes) noexcept {
  return (bytes + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
}

Result<Arena> Arena::open(const ArenaOptions& options) {
  if (options.bytes == 0 || options.bytes > ARENA_BYTES_MAX) {
    return Error{"cannot make an arena of " + size_text(options.bytes),
                 "ask for 2 MiB to " + size_text(ARENA_BYTES_MAX)};
  }
  const std::size_t bytes = whole_bytes(options.bytes);
  std::vector<Rung> rungs{options.rung};
  if (options.rung == Rung::automatic) {
    rungs = {Rung::hugetlb, Rung::thp, Rung::plain};
    if (options.is_shared) rungs.insert(rungs.begin() + 1, Rung::memfd);
  }
  Error fault;
  for (const Rung rung : rungs) {
    auto mapping = map_rung(rung, options, bytes);
    if (!mapping) {
      fault = mapping.error();
      continue;
    }
    keep_private(mapping->memory);
    std::string nodes_fault = numa::prefer(mapping->memory, options.region_bytes, options.nodes);
    Arena arena;
    arena.memory_ = mapping->memory;
    arena.rung_ = rung;
    arena.descriptor_ = mapping->descriptor;
    arena.nodes_ = options.nodes;
    arena.nodes_fault_ = std::move(nodes_fault);
    const bool is_memfd = rung == Rung::hugetlb || rung == Rung::memfd;
    arena.is_sealed_ = options.is_shared && is_memfd && seal(mapping->descriptor);
    return arena;
  }
  return fault;
}

Arena::Arena(Arena&& other) noexcept { *this = std::move(other); }

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(rung_, other.rung_);
  std::swap(is_sealed_, other.is_sealed_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(nodes_, other.nodes_);
  std::swap(nodes_fault_, other.nodes_fault_);
  return *this;
}

Arena::~Arena() {
  if (!memory_.empty()) munmap(memory_.data(), memory_.size());
  if (descriptor_ >= 0) close(descriptor_);
}

std::span<std::byte> Arena::memory() const noexcept { return memory_; }
Rung Arena::rung() const noexcept { return rung_; }
int Arena::descriptor() const noexcept { return descriptor_; }

bool Arena::has_huge_pages() const noexcept {
  if (rung_ != Rung::file) return rung_ == Rung::hugetlb || rung_ == Rung::thp;
  struct statfs system {};
  const bool is_known = fstatfs(descriptor_, &system) == 0;
  return is_known && static_cast<std::uint64_t>(system.f_type) == HUGETLBFS_TYPE;
}

std::string Arena::rung_name() const {
  switch (rung_) {
    case Rung::hugetlb: return "hugetlb";
    case Rung::memfd: return "memfd";
    case Rung::thp: return "thp";
    case Rung::file: return "file";
    default: return "plain";
  }
}

}  // namespace gd2fs

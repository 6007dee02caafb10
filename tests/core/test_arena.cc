#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "arena.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "../../core/limits.h"  // the system has a limits.h of its own

using namespace gd2fs;

namespace {

// A folder that goes with the test.
class Folder {
 public:
  Folder() {
    REQUIRE(mkdtemp(name_.data()) != nullptr);
    path = name_;
  }
  ~Folder() {
    unlink(file().c_str());
    rmdir(path.c_str());
  }
  std::string file() const { return path + "/arena"; }
  std::string path;

 private:
  std::string name_ = "/tmp/gd2fs-arena-XXXXXX";
};

Error refusal(const ArenaOptions& options) {
  auto arena = Arena::open(options);
  REQUIRE_FALSE(arena);
  return arena.error();
}

}  // namespace

TEST_CASE("the settings of an arena are read, and what is none of them is named") {
  CHECK(parse_arena("auto", 5)->rung == Rung::automatic);
  CHECK(parse_arena("hugetlb", 5)->rung == Rung::hugetlb);
  CHECK(parse_arena("memfd", 5)->rung == Rung::memfd);
  CHECK(parse_arena("thp", 5)->rung == Rung::thp);
  CHECK(parse_arena("plain", 5)->bytes == 5);
  CHECK(parse_arena("file:/a/b", 5)->rung == Rung::file);
  CHECK(parse_arena("file:/a/b", 5)->path == "/a/b");

  for (const char* text : {"", "file:", "huge", "Auto"}) {
    const auto parsed = parse_arena(text, 5);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().message.find(text) != std::string::npos);
    CHECK_FALSE(parsed.error().hint.empty());
  }
}

TEST_CASE("every rung that this machine has gives whole, aligned, writable memory of zeros") {
  for (const Rung rung : {Rung::automatic, Rung::hugetlb, Rung::memfd, Rung::thp, Rung::plain}) {
    auto arena = Arena::open({5 * MiB, rung, ""});
    if (!arena) {
      CHECK_FALSE(arena.error().message.empty());
      CHECK((rung == Rung::hugetlb || rung == Rung::thp));
      continue;
    }
    CHECK(arena->bytes() == 6 * MiB);
    CHECK(reinterpret_cast<std::uintptr_t>(arena->memory().data()) % (2 * MiB) == 0);
    CHECK((rung == Rung::automatic || arena->rung() == rung));
    const bool is_memfd = arena->rung() == Rung::hugetlb || arena->rung() == Rung::memfd;
    CHECK((arena->descriptor() >= 0) == is_memfd);
    CHECK_FALSE(arena->is_sealed());
    for (std::size_t at = 0; at < arena->bytes(); at += 4096)
      CHECK(arena->memory()[at] == std::byte{0});
    std::memset(arena->memory().data(), 1, arena->bytes());
  }
}

TEST_CASE("an arena moves without its memory") {
  auto opened = Arena::open({2 * MiB, Rung::plain, ""});
  REQUIRE(opened);
  Arena first = std::move(*opened);
  std::byte* const at = first.memory().data();

  Arena second = std::move(first);

  CHECK(second.memory().data() == at);
  CHECK(second.rung_name() == "plain");
  CHECK(first.memory().empty());
}

TEST_CASE("more memory than there is is refused with both sizes before anything is touched") {
  for (const Rung rung : {Rung::automatic, Rung::hugetlb, Rung::thp, Rung::plain}) {
    const Error error = refusal({4 * TiB, rung, ""});
    if (error.message.find("switched off") != std::string::npos) continue;
    if (error.message.find("memfd") != std::string::npos) continue;
    CHECK(error.message.find("4 TiB") != std::string::npos);
    CHECK_FALSE(error.hint.empty());
  }
  CHECK(refusal({0, Rung::plain, ""}).message.find("0 bytes") != std::string::npos);
  CHECK_FALSE(refusal({~std::size_t{0}, Rung::plain, ""}).hint.empty());
}

TEST_CASE("hugepages that are not there are asked for by number") {
  const Error error = refusal({4 * TiB, Rung::hugetlb, ""});

  if (error.message.find("memfd") == std::string::npos) {
    CHECK(error.hint.find("sysctl vm.nr_hugepages=") != std::string::npos);
    CHECK(error.hint.find("--arena auto") != std::string::npos);
  }
}

TEST_CASE("a file keeps its bytes when the arena is closed, private to its user") {
  const Folder folder;
  {
    auto arena = Arena::open({4 * MiB, Rung::file, folder.file()});
    REQUIRE(arena);
    CHECK(arena->rung_name() == "file");
    std::memcpy(arena->memory().data() + 3 * MiB, "kept", 4);
  }
  struct stat now {};
  REQUIRE(stat(folder.file().c_str(), &now) == 0);
  CHECK((now.st_mode & 0777) == 0600);
  CHECK(now.st_size == 4 * MiB);

  auto again = Arena::open({4 * MiB, Rung::file, folder.file()});

  REQUIRE(again);
  CHECK(std::memcmp(again->memory().data() + 3 * MiB, "kept", 4) == 0);
}

TEST_CASE("two nodes never share a file") {
  const Folder folder;
  auto arena = Arena::open({4 * MiB, Rung::file, folder.file()});
  REQUIRE(arena);

  CHECK(refusal({4 * MiB, Rung::file, folder.file()}).message.find("another node") !=
        std::string::npos);
}

TEST_CASE("a file that is no arena of that size is left as it is") {
  const Folder folder;
  const int descriptor = open(folder.file().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  REQUIRE(write(descriptor, "precious", 8) == 8);
  close(descriptor);

  const Error error = refusal({4 * MiB, Rung::file, folder.file()});

  CHECK(error.message.find("8 bytes") != std::string::npos);
  CHECK(error.message.find("4 MiB") != std::string::npos);
  struct stat now {};
  REQUIRE(stat(folder.file().c_str(), &now) == 0);
  CHECK(now.st_size == 8);
}

TEST_CASE("what is no place for a file is refused with a hint") {
  Folder folder;
  CHECK(refusal({4 * MiB, Rung::file, folder.path}).hint.find(folder.path + "/arena") !=
        std::string::npos);
  CHECK(refusal({4 * MiB, Rung::file, folder.path + "/none/arena"}).hint.find("directory") !=
        std::string::npos);
}

TEST_CASE("a refused file leaves nothing behind, and one that was there as it was") {
  Folder folder;
  struct stat now {};
  refusal({7 * TiB, Rung::file, folder.file()});
  CHECK(stat(folder.file().c_str(), &now) != 0);

  close(open(folder.file().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  refusal({7 * TiB, Rung::file, folder.file()});
  REQUIRE(stat(folder.file().c_str(), &now) == 0);
  CHECK(now.st_size == 0);
}

TEST_CASE("a file that cannot be made or filled is refused with its name") {
  const Folder folder;
  CHECK(refusal({4 * MiB, Rung::file, folder.path}).message.find(folder.path) != std::string::npos);
  CHECK(refusal({4 * MiB, Rung::file, "/no/such/folder/arena"}).message.find("/no/such") !=
        std::string::npos);

  const Error error = refusal({7 * TiB, Rung::file, folder.file()});

  CHECK(error.message.find("7 TiB") != std::string::npos);
  CHECK(error.message.find("free there") != std::string::npos);
}

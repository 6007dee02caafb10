// Opening: folders become places, files become segments, headers become copies.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

#include "latch.h"
#include "log_disk.h"
#include "scan.h"

namespace gd2fs::disk {
namespace {

constexpr std::uint64_t SERIAL_GAP = 1
                                     << 20;  // what could not be read this time may have been later
constexpr std::uint64_t FILES_BESIDE = 4096;  // descriptors that the rest of the process may want

struct Found {
  Segment* segment;
  ScannedSegment scanned;
};

Error invalid(std::string message, std::string hint) {
  return {std::move(message), std::move(hint), Status::invalid};
}

std::int64_t realtime_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1'000 + now.tv_nsec / 1'000'000;
}

/// Every segment is an open file. A process may raise its own limit up to the one that it was
/// given.
void allow_files(std::uint64_t count) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min<rlim_t>(count + FILES_BESIDE, limit.rlim_max);
  if (wanted <= limit.rlim_cur) return;
  limit.rlim_cur = wanted;
  ::setrlimit(RLIMIT_NOFILE, &limit);  // refused: then a segment that cannot be made is an error
}

class Opening {
 public:
  explicit Opening(std::unique_ptr<Log> log) : log_(std::move(log)) {}
  ~Opening() {
    if (!log_) return;
    for (const auto& place : log_->places) {
      for (const auto& segment : place->segments) log_->io->close(segment->file);
      ::close(place->folder_file);
    }
  }

  /// Null, or what is wrong.
  std::optional<Error> run(const Disk::Visit& visit) {
    const std::int64_t start_ms = now_ms();
    std::uint64_t files = 0;
    for (const DiskPlace& place : log_->options.places) {
      if (auto error = take(place)) return error;
      files += log_->places.back()->bytes_max / log_->places.back()->segment_bytes;
    }
    allow_files(files);
    for (const auto& place : log_->places)
      if (auto error = open_files(*place)) return error;
    scan();
    for (const Found& each : found_)
      if (auto error = check_node(each)) return error;
    adopt(visit);
    log_->counts.scan_ms = static_cast<std::uint64_t>(now_ms() - start_ms);
    return std::nullopt;
  }

  std::unique_ptr<Log> take_log() { return std::move(log_); }

 private:
  std::optional<Error> take(const DiskPlace& place);
  std::optional<Error> open_files(Place& place);
  std::optional<Error> open_file(Place& place, std::uint64_t number);
  void scan();
  void scan_one(Found& found);
  std::optional<Error> check_node(const Found& found) const;
  void adopt(const Disk::Visit& visit);
  void strike_twin(const RecordHead& twin, Segment& segment);

  std::unique_ptr<Log> log_;
  std::vector<Found> found_;
};

std::optional<Error> Opening::take(const DiskPlace& wanted) {
  if (wanted.bytes_max < DISK_BYTES_MIN)
    return invalid("the disk tier in `" + wanted.folder + "` is given " +
                       std::to_string(wanted.bytes_max) + " bytes, fewer than " +
                       std::to_string(DISK_BYTES_MIN),
                   "give it more, best many gigabytes");
  std::error_code ignored;  // what matters is whether it can be opened
  std::filesystem::create_directories(wanted.folder, ignored);
  const int folder = ::open(wanted.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0)
    return invalid("cannot open the folder `" + wanted.folder + "`: " + std::strerror(errno),
                   "make it, and let this user write there");
  auto place =
      std::make_unique<Place>(wanted.folder, wanted.bytes_max, log_->options.segment_bytes);
  place->folder_file = folder;
  log_->places.push_back(std::move(place));
  if (::flock(folder, LOCK_EX | LOCK_NB) == 0) return std::nullopt;
  return invalid("the folder `" + wanted.folder + "` is in use by another node, or named twice",
                 "give every node, and every place, a folder of its own");
}

std::optional<Error> Opening::open_files(Place& place) {
  std::vector<std::uint64_t> numbers;
  std::error_code error;
  for (std::filesystem::directory_iterator each(place.folder, error), end; !error && each != end;
       each.increment(error)) {
    if (const auto number = Place::number_of(each->path().filename().string()))
      numbers.push_back(*number);
  }
  if (error)
    return invalid("cannot read the folder `" + place.folder + "`: " + error.message(),
                   "let this user read it");
  std::sort(numbers.begin(), numbers.end());
  for (const std::uint64_t number : numbers)
    if (auto wrong = open_file(place, number)) return wrong;
  return std::nullopt;
}

std::optional<Error> Opening::open_file(Place& place, std::uint64_t number) {
  const std::string path = place.path_of(number);
  int file = -1;
  for (const int flags : {O_RDWR | O_DIRECT, O_RDWR, O_RDONLY | O_DIRECT, O_RDONLY}) {
    file = log_->io->open(path, flags);
    if (file < 0) continue;
    place.is_direct = place.is_direct && (flags & O_DIRECT) != 0;
    if ((flags & O_RDWR) == 0 && !place.is_failed) log_->fail(place, EROFS);
    break;
  }
  if (file < 0)
    return invalid("cannot open `" + path + "`: " + std::strerror(-file),
                   "let this user read it, or remove it");
  struct stat state {};
  const bool is_known = ::fstat(file, &state) == 0;
  const std::uint64_t bytes = is_known ? static_cast<std::uint64_t>(state.st_size) : 0;
  Segment* const segment = place.add(number, bytes, file);
  segment->state = Segment::State::busy;
  found_.push_back({segment, {}});
  return std::nullopt;
}

/// Each segment is a chain of reads, so many of them are followed at a time.
void Opening::scan() {
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  const std::size_t count =
      std::min(found_.size(), std::clamp<std::size_t>(log_->options.depth, 1, DISK_DEPTH_MAX));
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      for (std::size_t each = next++; each < found_.size(); each = next++) scan_one(found_[each]);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void Opening::scan_one(Found& found) {
  Segment& segment = *found.segment;
  found.scanned = scan_segment(*log_->io, segment.file, segment.bytes);
  const bool is_foreign = check_node(found).has_value();
  if (found.scanned.id == 0 || found.scanned.is_sealed || is_foreign) return;
  const bool is_settled = !segment.place.is_failed && found.scanned.read_errors == 0 &&
                          settle_segment(*log_->io, segment.file, found.scanned) == 0;
  if (!is_settled) segment.is_sealable = false;
}

std::optional<Error> Opening::check_node(const Found& found) const {
  const std::string& name = found.scanned.node_name;
  if (name.empty() || name == log_->options.node_name) return std::nullopt;
  const std::string& folder = found.segment->place.folder;
  return invalid("the folder `" + folder + "` was written by node `" + name + "`, not by `" +
                     log_->options.node_name + "`",
                 "name the node as before, or give it an empty folder");
}

void Opening::adopt(const Disk::Visit& visit) {
  struct Head {
    RecordHead head;
    Segment* segment;
  };
  std::vector<Head> heads;
  DiskCounts& counts = log_->counts;
  for (Found& each : found_) {
    Segment& segment = *each.segment;
    ScannedSegment& scanned = each.scanned;
    segment.id = scanned.id;
    segment.is_void = scanned.id == 0;
    segment.end = scanned.end;
    segment.state = segment.is_void ? Segment::State::blank : Segment::State::closed;
    counts.corrupt_headers += scanned.corrupt_headers;
    counts.read_errors += scanned.read_errors;
    segment.place.read_errors += scanned.read_errors;
    counts.torn_records += scanned.torn.size();
    counts.scanned_bytes += scanned.end - FRONT_BYTES;
    log_->serial_next = std::max(log_->serial_next, scanned.serial_max + SERIAL_GAP);
    for (RecordHead& head : scanned.records) heads.push_back({std::move(head), &segment});
    scanned = {};
  }
  std::sort(heads.begin(), heads.end(),
            [](const Head& a, const Head& b) { return a.head.serial < b.head.serial; });
  const std::int64_t wall_ms = realtime_ms();
  std::uint64_t last_serial = 0;
  for (Head& each : heads) {
    RecordHead& head = each.head;
    ++counts.scanned_records;
    const bool is_twin = std::exchange(last_serial, head.serial) == head.serial;
    if (is_twin) {
      strike_twin(head, *each.segment);
      continue;
    }
    if (head.piece.expires_ms != 0 && head.piece.expires_ms <= wall_ms) {
      ++counts.expired_records;
      continue;
    }
    auto copy = std::make_shared<LogCopy>(head.piece.length, head.serial, head.header_bytes);
    each.segment->add(copy, head.offset);
    ++log_->records;
    log_->live_bytes += copy->disk_bytes();
    visit(std::move(head.piece), std::move(copy));
  }
}

/// The process ended while the cleaner had it in two places: only one of them may stay, or striking
/// that one would not strike the other.
void Opening::strike_twin(const RecordHead& twin, Segment& segment) {
  int error = EROFS;
  if (!segment.place.is_failed) {
    Latch latch(1);
    write_strike(*log_->io, segment.file, segment.id, twin.offset, twin.header_bytes,
                 twin.piece.length, [&](int result) { latch.arrive(result); });
    error = latch.wait();
  }
  if (error == 0) return;
  segment.place.doubts.push_back(
      {&segment, segment.id, twin.offset, twin.piece.length, twin.header_bytes});
  if (!segment.place.is_failed) log_->fail(segment.place, error);
}

std::optional<Error> check(const DiskOptions& options) {
  if (options.places.empty() || options.places.size() > DISK_PLACES_MAX)
    return invalid("a disk tier has 1 to " + std::to_string(DISK_PLACES_MAX) + " places, not " +
                       std::to_string(options.places.size()),
                   "name at least one folder");
  if (options.depth < 1 || options.depth > DISK_DEPTH_MAX)
    return invalid("a disk has 1 to " + std::to_string(DISK_DEPTH_MAX) + " calls in flight, not " +
                       std::to_string(options.depth),
                   "leave it out");
  if (options.node_name.size() > NODE_NAME_BYTES_MAX)
    return invalid("the node's name is too long", "shorten it");
  return std::nullopt;
}

}  // namespace

Result<std::unique_ptr<Disk>> open_log_disk(const DiskOptions& options, const Disk::Visit& visit,
                                            std::unique_ptr<DiskIo> io) {
  if (auto error = check(options)) return std::move(*error);
  Opening opening(std::make_unique<Log>(options, std::move(io)));
  if (auto error = opening.run(visit)) return std::move(*error);
  return std::unique_ptr<Disk>(std::make_unique<LogDisk>(opening.take_log()));
}

}  // namespace gd2fs::disk

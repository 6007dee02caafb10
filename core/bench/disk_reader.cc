#include "disk_reader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <future>
#include <mutex>
#include <random>

#include "../checksum.h"
#include "../extent.h"

namespace gd2fs::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void fill(std::span<std::byte> bytes, std::mt19937_64& random) {
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    const std::uint64_t word = random();
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
}

std::vector<std::uint64_t> hashes_of(std::span<const std::byte> bytes) {
  std::vector<std::uint64_t> hashes;
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), BLOCK_BYTES)))
    hashes.push_back(checksum(bytes.first(std::min(bytes.size(), BLOCK_BYTES))));
  return hashes;
}

}  // namespace

/// One call of `read`: so many slots of memory, each with one record on its way.
struct DiskReader::Reading {
  std::mutex mutex;  // Guards: all below.
  std::condition_variable over;
  std::mt19937_64 random{1};
  std::size_t on_way = 0;
  std::uint64_t bytes = 0;
  bool is_wrong = false;
  bool is_verifying = true;
  Clock::time_point until;
};

DiskReader::DiskReader(DiskReaderOptions options, Arena arena)
    : options_(std::move(options)), arena_(std::move(arena)) {}

Result<std::unique_ptr<DiskReader>> DiskReader::make(DiskReaderOptions options) {
  options.arena.bytes = whole_grains(options.record_bytes) * options.disk.depth;
  auto arena = Arena::open(options.arena);
  if (!arena) return arena.error();
  // Room for headers, segments in hand, and what the cleaner keeps spare: nothing is let go.
  const std::uint64_t log_bytes =
      options.bytes / options.record_bytes * (whole_grains(options.record_bytes) + 2 * GRAIN_BYTES);
  for (DiskPlace& place : options.disk.places)
    place.bytes_max = 2 * log_bytes + 16 * options.disk.segment_bytes;
  std::unique_ptr<DiskReader> reader(new DiskReader(std::move(options), std::move(*arena)));
  if (auto opened = reader->open(); !opened) return opened.error();
  if (const Status status = reader->write_all(); status != Status::ok)
    return Error{
        "cannot fill `" + reader->options_.disk.places[0].folder + "`: " + status_name(status),
        "see that there is room, and that this user may write there"};
  return reader;
}

Result<bool> DiskReader::open() {
  std::vector<Record> found;
  auto disk = Disk::open(options_.disk, [&](DiskPiece&& piece, DiskCopyRef copy) {
    found.push_back({std::move(copy), std::move(piece.hashes)});
  });
  if (!disk) return disk.error();
  disk_ = std::move(*disk);
  records_ = std::move(found);
  return true;
}

std::span<std::byte> DiskReader::slot(std::size_t each) const {
  const std::size_t bytes = whole_grains(options_.record_bytes);
  return arena_.memory().subspan(each * bytes, options_.record_bytes);
}

/// As many at once as the disk's queue takes; each is another one by its first grain.
Status DiskReader::write_all() {
  std::mt19937_64 random(2);
  const std::size_t slots =
      std::clamp<std::size_t>(DISK_QUEUE_BYTES / 2 / options_.record_bytes, 1, options_.disk.depth);
  for (std::size_t each = 0; each < slots; ++each) fill(slot(each), random);
  const auto start = Clock::now();
  std::uint64_t written = 0;
  Status worst = Status::ok;
  while (written < options_.bytes && worst == Status::ok) {
    for (std::size_t each = 0; each < slots; ++each) fill(slot(each).first(GRAIN_BYTES), random);
    worst = write_round(slots, written);
    written += slots * options_.record_bytes;
  }
  std::promise<Status> flushed;
  disk_->flush([&](Status status) { flushed.set_value(status); });
  const Status status = flushed.get_future().get();
  written_bytes_per_s_ = static_cast<double>(written) / seconds_since(start);
  return worst == Status::ok ? status : worst;
}

Status DiskReader::write_round(std::size_t slots, std::uint64_t first) {
  std::vector<std::promise<std::pair<Status, DiskCopyRef>>> answers(slots);
  std::vector<std::vector<std::uint64_t>> hashes(slots);
  for (std::size_t each = 0; each < slots; ++each) {
    DiskPiece piece;
    piece.name = "bench/" + std::to_string(first + each);
    piece.length = options_.record_bytes;
    piece.hashes = hashes[each] = hashes_of(slot(each));
    disk_->write(std::move(piece), {slot(each)}, nullptr,
                 [&answer = answers[each]](Status status, DiskCopyRef copy) {
                   answer.set_value({status, std::move(copy)});
                 });
  }
  Status worst = Status::ok;
  for (std::size_t each = 0; each < slots; ++each) {
    auto [status, copy] = answers[each].get_future().get();
    if (status != Status::ok) worst = status;
    if (copy) records_.push_back({std::move(copy), std::move(hashes[each])});
  }
  return worst;
}

double DiskReader::read(double seconds, bool is_verifying) {
  Reading reading;
  reading.is_verifying = is_verifying;
  const auto start = Clock::now();
  reading.until =
      start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  for (std::size_t each = 0; each < options_.disk.depth; ++each) {
    {
      const std::lock_guard lock(reading.mutex);
      ++reading.on_way;
    }
    next(reading, each);
  }
  std::unique_lock lock(reading.mutex);
  reading.over.wait(lock, [&] { return reading.on_way == 0; });
  return reading.is_wrong ? 0 : static_cast<double>(reading.bytes) / seconds_since(start);
}

void DiskReader::next(Reading& reading, std::size_t each) {
  std::size_t at = 0;
  {
    const std::lock_guard lock(reading.mutex);
    at = reading.random() % records_.size();
  }
  const Record& record = records_[at];
  disk_->read(
      record.copy, 0, {slot(each)}, nullptr, [this, &reading, &record, each](Status status) {
        const bool is_right = status == Status::ok &&
                              (!reading.is_verifying || hashes_of(slot(each)) == record.hashes);
        {
          const std::lock_guard lock(reading.mutex);
          reading.bytes += options_.record_bytes;
          reading.is_wrong = reading.is_wrong || !is_right;
          if (!is_right || Clock::now() >= reading.until) {
            if (--reading.on_way == 0) reading.over.notify_one();
            return;
          }
        }
        next(reading, each);
      });
}

Result<DiskCounts> DiskReader::scan() {
  records_.clear();
  disk_.reset();
  if (auto opened = open(); !opened) return opened.error();
  return disk_->counts();
}

bool DiskReader::is_uring() const { return disk_->counts().is_uring; }

bool DiskReader::is_direct() const { return disk_->counts().places[0].is_direct; }

}  // namespace gd2fs::bench

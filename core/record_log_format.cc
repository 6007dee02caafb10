#include "record_log_format.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "name.h"
#include "transport/tcp.h"

namespace gd2fs {
namespace {

constexpr std::uint32_t HEAD_MAGIC = 0x4A324447;  // "GD2J"
constexpr std::uint32_t FORMAT_VERSION = 1;
constexpr std::size_t ENTRY_HEAD_BYTES = 24;
constexpr std::size_t BODY_BYTES_MAX = 2 + PATH_BYTES_MAX + 8 + TABLE_BYTES_MAX;

struct Head {
  std::uint32_t magic, version;
  std::uint64_t check;
  std::int64_t machine_began_ms;
  std::uint8_t machine[16];
  std::byte list_hash[16];
  std::uint32_t node_bytes, cluster_bytes;
  char node[NODE_NAME_BYTES_MAX];
  char cluster[CLUSTER_BYTES_MAX];
};
static_assert(sizeof(Head) <= LOG_HEAD_BYTES);

struct EntryHead {
  std::uint32_t bytes;
  std::uint8_t kind;
  std::uint8_t zero[3];
  std::uint64_t body_check;
  std::uint64_t check;  // of all before it
};
static_assert(sizeof(EntryHead) == ENTRY_HEAD_BYTES && offsetof(EntryHead, check) == 16);

std::uint64_t check_of(Head head) {
  head.check = 0;
  return XXH3_64bits(&head, sizeof head);
}

std::uint64_t check_of(const EntryHead& head) {
  return XXH3_64bits_withSeed(&head, offsetof(EntryHead, check), HEAD_MAGIC);
}

template <class Value>
void append(wire::Bytes& out, const Value& value) {
  const auto* const from = reinterpret_cast<const std::byte*>(&value);  // plain bytes
  out.insert(out.end(), from, from + sizeof value);
}

void append(wire::Bytes& out, std::string_view text) {
  const auto* const from = reinterpret_cast<const std::byte*>(text.data());  // plain bytes
  out.insert(out.end(), from, from + text.size());
}

void begin_body(wire::Bytes& body, std::string_view path) {
  append(body, static_cast<std::uint16_t>(path.size()));
  append(body, path);
}

void append_entry(wire::Bytes& out, LogEntry::Kind kind, const wire::Bytes& body) {
  EntryHead head{};
  head.bytes = static_cast<std::uint32_t>(body.size());
  head.kind = static_cast<std::uint8_t>(kind);
  head.body_check = XXH3_64bits(body.data(), body.size());
  head.check = check_of(head);
  append(out, head);
  out.insert(out.end(), body.begin(), body.end());
}

std::size_t put_text(char* to, std::size_t room, const std::string& text) {
  const std::size_t bytes = std::min(room, text.size());
  std::memcpy(to, text.data(), bytes);
  return bytes;
}

/// A file's bytes, mapped to be read.
class MappedLog {
 public:
  explicit MappedLog(const std::string& path)
      : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)) {
    struct stat now {};
    if (!file_ || fstat(file_.get(), &now) != 0 || now.st_size == 0) return;
    const auto bytes = static_cast<std::size_t>(now.st_size);
    void* const at = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file_.get(), 0);
    if (at != MAP_FAILED) content_ = {static_cast<const std::byte*>(at), bytes};
  }
  ~MappedLog() {
    if (!content_.empty()) munmap(const_cast<std::byte*>(content_.data()), content_.size());
  }
  MappedLog(const MappedLog&) = delete;
  MappedLog& operator=(const MappedLog&) = delete;

  wire::View content() const noexcept { return content_; }

 private:
  tcp::Descriptor file_;
  wire::View content_;
};

/// Why what a log says does not count under this owner; empty when it does.
std::string fault_of(const Head& head, const LogOwner& owner) {
  if (head.magic != HEAD_MAGIC) return "it is no log of records";
  if (head.version != FORMAT_VERSION)
    return "another version of gd2fs wrote it, in format " + std::to_string(head.version);
  if (head.check != check_of(head) || head.node_bytes > sizeof head.node ||
      head.cluster_bytes > sizeof head.cluster) {
    return "its head is damaged";
  }
  const std::string_view node(head.node, head.node_bytes);
  const std::string_view cluster(head.cluster, head.cluster_bytes);
  if (cluster != owner.cluster) return "it belongs to cluster `" + std::string(cluster) + "`";
  if (node != owner.node) return "it belongs to node `" + std::string(node) + "`";
  if (!std::equal(owner.list_hash.begin(), owner.list_hash.end(), head.list_hash))
    return "the list of nodes is another one now";
  return "";
}

class Reader {
 public:
  Reader(wire::View content, const LogOwner& owner, const MachineStart& before)
      : rest_(content), owner_(owner), before_(before) {}

  /// False: the log ends here, or has a fault.
  bool next(LogEntry& entry, RecordRecovery& recovery);
  bool is_closed() const noexcept { return is_closed_; }

 private:
  bool read(LogEntry& entry, wire::View body);
  bool read_change(LogEntry& entry, wire::View rest);

  wire::View rest_;
  const LogOwner& owner_;
  const MachineStart& before_;
  std::shared_ptr<FullRecord> part_;  // of a record in several entries
  std::string part_path_;
  bool is_closed_ = false;
};

bool Reader::next(LogEntry& entry, RecordRecovery& recovery) {
  EntryHead head{};
  for (;;) {
    if (rest_.empty()) return false;
    recovery.is_torn = rest_.size() < sizeof head;
    if (recovery.is_torn) return false;
    std::memcpy(&head, rest_.data(), sizeof head);  // as long as was just compared
    if (head.check != check_of(head) || head.bytes > BODY_BYTES_MAX) break;
    recovery.is_torn = rest_.size() - sizeof head < head.bytes;
    if (recovery.is_torn) return false;
    const wire::View body = rest_.subspan(sizeof head, head.bytes);
    rest_ = rest_.subspan(sizeof head + head.bytes);
    if (XXH3_64bits(body.data(), body.size()) != head.body_check) break;
    ++recovery.entries;
    entry = {};
    entry.kind = static_cast<LogEntry::Kind>(head.kind);
    is_closed_ = entry.kind == LogEntry::Kind::closed;
    if (is_closed_) continue;
    if (!read(entry, body)) break;
    if (part_ == nullptr) return true;
  }
  recovery.fault = "it is damaged after " + std::to_string(recovery.entries) + " entries";
  return false;
}

bool Reader::read(LogEntry& entry, wire::View body) {
  wire::TableReader table(body);
  const std::size_t bytes = table.u16();
  entry.path = std::string(table.text(bytes));
  if (!table.ok() || !is_valid_name(entry.path, false)) return false;
  const bool is_next_part = part_ == nullptr || part_path_ == entry.path;
  if (entry.kind == LogEntry::Kind::forgotten) return part_ == nullptr && table.left() == 0;
  return entry.kind == LogEntry::Kind::change && is_next_part &&
         read_change(entry, body.subspan(2 + bytes));
}

bool Reader::read_change(LogEntry& entry, wire::View rest) {
  wire::TableReader table(rest);
  const auto expires_ms = static_cast<std::int64_t>(table.u64());
  if (!table.ok()) return false;
  entry.expires_ms = expires_ms == 0 ? 0 : owner_.machine.time_of(expires_ms, before_);
  auto part = decode_attempt(rest.subspan(sizeof expires_ms), std::move(part_));
  part_ = nullptr;
  if (!part) return false;
  entry.attempt = std::move(part->attempt);
  if (part->is_last) return true;
  part_ = std::move(part->full);
  part_path_ = entry.path;
  return true;
}

}  // namespace

void encode_log_head(wire::Bytes& out, const LogOwner& owner) {
  Head head{};
  head.magic = HEAD_MAGIC;
  head.version = FORMAT_VERSION;
  head.machine_began_ms = owner.machine.began_ms;
  std::copy(owner.machine.id.begin(), owner.machine.id.end(), head.machine);
  std::copy(owner.list_hash.begin(), owner.list_hash.end(), head.list_hash);
  head.node_bytes = static_cast<std::uint32_t>(put_text(head.node, sizeof head.node, owner.node));
  head.cluster_bytes =
      static_cast<std::uint32_t>(put_text(head.cluster, sizeof head.cluster, owner.cluster));
  head.check = check_of(head);
  const std::size_t at = out.size();
  append(out, head);
  out.resize(at + LOG_HEAD_BYTES);
}

void encode_log_change(wire::Bytes& out, std::string_view path, std::int64_t expires_ms,
                       const Replication& attempt) {
  wire::Bytes body;
  for (std::optional<std::uint64_t> first = 0; first;) {
    body.clear();
    begin_body(body, path);
    append(body, expires_ms);
    first = encode_attempt(body, attempt, *first);
    append_entry(out, LogEntry::Kind::change, body);
  }
}

void encode_log_forgotten(wire::Bytes& out, std::string_view path) {
  wire::Bytes body;
  begin_body(body, path);
  append_entry(out, LogEntry::Kind::forgotten, body);
}

void encode_log_closed(wire::Bytes& out) { append_entry(out, LogEntry::Kind::closed, {}); }

RecordRecovery read_log(const std::string& path, const LogOwner& owner,
                        const std::function<void(const LogEntry&)>& visit) {
  RecordRecovery recovery;
  const MappedLog log(path);
  const wire::View content = log.content();
  if (content.size() < LOG_HEAD_BYTES) {
    recovery.fault = content.empty() ? "it is new" : "its head is damaged";
    return recovery;
  }
  Head head{};
  std::memcpy(&head, content.data(), sizeof head);  // as long as was just compared
  recovery.fault = fault_of(head, owner);
  if (!recovery.fault.empty()) return recovery;
  MachineStart before;
  before.began_ms = head.machine_began_ms;
  std::copy(std::begin(head.machine), std::end(head.machine), before.id.begin());
  Reader reader(content.subspan(LOG_HEAD_BYTES), owner, before);
  LogEntry entry;
  while (reader.next(entry, recovery)) visit(entry);
  const bool is_whole = reader.is_closed() && !recovery.is_torn;
  if (recovery.fault.empty() && !owner.machine.is_same(before) && !is_whole)
    recovery.fault = "the machine has started anew, and the node had not ended before";
  return recovery;
}

}  // namespace gd2fs

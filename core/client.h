// Client: files and pages on all nodes of a cluster. Every call starts an operation and returns at
// once.
//
// An operation borrows the caller's memory until it is done. It is done exactly once, at the latest
// at its deadline; then no thread of the client touches that memory any more. Nothing here throws.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "error.h"
#include "kept_at.h"
#include "limits.h"
#include "rdma.h"
#include "token.h"
#include "transport/tcp.h"
#include "transport/tls.h"
#include "view.h"
#include "wire.h"

namespace gd2fs {

/// How a client talks to nodes. `automatic`: to a node of this host over its Unix socket, with
/// shared memory when the node grants it; else over TCP, with one-sided transfers where cards of
/// both sides make them. rdma: with one-sided transfers, whoever makes them.
enum class Transport : std::uint8_t { automatic, shm, rdma, unix_socket, tcp };

/// `auto`, `shm`, `rdma`, `unix` or `tcp`.
const char* transport_name(Transport transport) noexcept;
Result<Transport> parse_transport(std::string_view text);

/// How bytes travel that belong to memory of a GPU.
struct DeviceSettings {
  // Pinned memory of the host that they pass through. 0: there are no GPUs.
  std::size_t bounce_bytes = BOUNCE_BYTES_DEFAULT;
  // Straight to registered memory, and from it, where cards reach it. Else they bounce.
  bool is_load_direct = true;
  bool is_save_direct = true;
  std::uint32_t checked_one_in = CHECKED_ONE_IN;  // of the requests that load straight; 0: none
};

struct ClientOptions {
  std::vector<std::string> seeds;  // "HOST:PORT", any node of the cluster; any live one serves
  // The client's own addresses to bind streams to, in turn; empty: the system's choice. One that
  // this machine does not have now is used once it has; with none at all `connect` is refused.
  std::vector<std::string> local;
  std::string cluster;
  std::uint32_t io_threads = 2;
  std::uint32_t streams = 2;         // per node; at least one for each of `local`
  std::uint32_t timeout_ms = 5'000;  // default deadline of a call
  std::uint32_t connect_ms = 1'000;  // to reach one node; then its keys are misses for a while
  // Every block is summed here: of a read it is checked, of a write the sum goes with it. Without,
  // the node sums what arrives, and a read stands on the node's word that it was in place.
  bool is_verifying = true;
  Transport transport = Transport::automatic;
  DeviceSettings devices;
  tcp::SocketSettings sockets;
  TokenSourceRef token;         // what it shows to nodes, which have to know it too; nothing: none
  tls::Settings tls;            // of streams over TCP; Unix sockets never have it
  tls::ContextPtr tls_context;  // inside a node: its own, instead
  RdmaSettings rdma;            // of the transports `rdma`, which has to have it, and `automatic`
};

/// A piece of the caller's memory: of the host, or of a GPU whose driver the process has loaded.
/// What is written from a GPU has to be there when the call begins.
struct Buffer {
  std::byte* at = nullptr;
  std::size_t bytes = 0;
};

/// Memory of a batch of pages, one buffer each. With `counts` the bytes of page `i` lie in the next
/// `counts[i]` buffers, in order; PAGE_BUFFERS_MAX at most.
struct PageBuffers {
  std::span<const Buffer> buffers;
  std::span<const std::uint32_t> counts;

  PageBuffers() = default;
  template <typename OneEach>
  requires std::convertible_to<const OneEach&, std::span<const Buffer>> PageBuffers(
      const OneEach& one_each)
      : buffers(one_each) {}
  PageBuffers(std::span<const Buffer> all, std::span<const std::uint32_t> of_each)
      : buffers(all), counts(of_each) {}
};

struct CallOptions {
  std::uint32_t timeout_ms = 0;   // 0: the client's default
  std::uint32_t ttl_s = 0;        // 0: none. Puts and creates
  std::uint32_t chunk_bytes = 0;  // create; 0: CHUNK_BYTES_DEFAULT
  std::uint32_t replicas = 0;     // create, put: copies of its bytes; 0: as its namespace has
  std::uint8_t eviction_class =
      EVICTION_CLASSES;       // puts and writes; that one: as its namespace has
  std::string tags{};         // puts and writes: for the site's rule, TAGS_BYTES_MAX at most
  bool if_absent = false;     // create: conflict when it is there
  std::uint64_t if_gen = 0;   // write: only into this generation of the file, else gone; 0: any
  bool is_verifying = false;  // views: sum every block where it lies before they are given out
  bool is_probe = false;      // exists, get: do not count as use
  bool is_announced = false;  // hand the finished operation out through `descriptor` and `finished`
  std::uint64_t cookie = 0;   // the caller's own, given back by `Operation::cookie`
  std::uint64_t trace = 0;    // what it belongs to, as nodes tell of slow requests; 0: nothing
};

/// What a caller expects of a file. willneed: it will be read much. dontneed: not any more.
enum class Advice : std::uint8_t { willneed, dontneed };

/// Which bytes shall be in their nodes' memory. load: these, once. shed: not these; what is not
/// on disk then is lost. pin: these, whatever room is needed for. unpin: as the others.
enum class MemoryWish : std::uint8_t { load = 0, shed = 1, pin = 2, unpin = 3 };

struct ItemOutcome {
  Status status = Status::unavailable;
  std::uint64_t bytes = 0;           // of the stored page (get), or moved
  std::uint8_t copies = 0;           // put: that stand now
  KeptAt kept_at = KeptAt::nowhere;  // sync: of the copy that outlives most
};

struct FileFacts {
  std::uint64_t size = 0;
  std::uint64_t gen = 0;
  std::uint64_t seq = 0;
  std::uint32_t chunk_bytes = 0;
  std::uint32_t ttl_s = 0;
  std::uint32_t replicas = 0;  // 0: as its namespace has
};

/// What one node says for itself, as JSON; a status but ok: why it says nothing.
struct NodeReply {
  std::string node;
  Status status = Status::unavailable;
  std::string text;
};

struct NodeQuestion {
  bool is_about_settings = false;  // else about a page or a file
  std::string text;                // its name on the wire, or JSON about settings
  bool is_page = false;
  std::string only;  // a node's name
};

/// What a call came to. Which fields are filled depends on the call.
struct Outcome {
  Status status = Status::unavailable;
  std::string message;  // one line with names and sizes when status is neither ok nor miss
  std::uint64_t value =
      0;  // read, write: bytes. append: offset where it was put. drop, clear: count
  std::vector<ItemOutcome> items;        // pages: one per key
  std::vector<wire::ListEntry> entries;  // list
  std::string next;                      // list: continue after this; empty at the end
  bool is_partial = false;               // list, clear, pages: some nodes did not answer
  FileFacts file;                        // create, stat, view_file
  ViewRef view;                          // view_page, view_file
  std::vector<NodeReply> replies;        // ask_nodes
  std::vector<wire::NodeStatus> nodes;   // ping; a node that did not answer has state 3
};

/// What a client has done since it began.
struct ClientCounts {
  std::uint64_t hedged = 0;      // reads that were asked of a second node, as the first was late
  std::uint64_t hedges_won = 0;  // and answered by it
  // Copied to memory of GPUs and from it, by way of the host's; and requests that failed so.
  std::uint64_t bounced_in_bytes = 0, bounced_out_bytes = 0, bounce_faults = 0;
  std::uint64_t direct_in_bytes = 0, direct_out_bytes = 0;  // straight to GPUs, and from them
  std::uint64_t checked_bytes = 0;                          // of these
  std::uint64_t direct_refused = 0;                         // requests that bounced instead
};

class Operation {
 public:
  virtual ~Operation() = default;
  virtual bool is_done() const = 0;
  /// Waits; false when `timeout_ms` passed first (< 0: for ever; the operation's own deadline
  /// bounds it).
  virtual bool wait(std::int64_t timeout_ms) = 0;
  virtual const Outcome& outcome() const = 0;  // once done
  /// Asks for an early end: the operation is done soon after, as cancelled or as whatever came
  /// first.
  virtual void cancel() = 0;
  virtual std::uint64_t cookie() const = 0;
  /// Of advice about memory: bytes that are dealt with so far.
  virtual std::uint64_t progress() const = 0;
};
using OperationRef = std::shared_ptr<Operation>;

class Client {
 public:
  /// Reaches one seed and learns the map. The error names what was tried, and says when the cluster
  /// is another one.
  static Result<std::unique_ptr<Client>> connect(const ClientOptions& options);
  virtual ~Client() = default;  // ends all operations (cancelled), joins threads

  // Pages. `keys` are copied; buffers are borrowed until done. One outcome per key:
  // get: ok with the page's length, miss, invalid when its buffers are too short together (bytes
  // says what is needed). put: ok or have (it is there now), full, unavailable. exists: ok, miss.
  virtual OperationRef get_pages(std::string_view name_space, std::span<const std::string> keys,
                                 const PageBuffers& into, const CallOptions& options) = 0;
  virtual OperationRef put_pages(std::string_view name_space, std::span<const std::string> keys,
                                 const PageBuffers& from, const CallOptions& options) = 0;
  virtual OperationRef exists(std::string_view name_space, std::span<const std::string> keys,
                              const CallOptions& options) = 0;
  virtual OperationRef drop_pages(std::string_view name_space, std::span<const std::string> keys,
                                  const CallOptions& options) = 0;
  virtual OperationRef list_pages(std::string_view name_space, std::string_view after,
                                  std::size_t count_max, const CallOptions& options) = 0;

  // Files. gone: no such file. miss: some byte asked for is evicted, lost or corrupt (nothing in
  // the buffer counts). read: short at the end of the file; what was never written reads as zeros.
  virtual OperationRef create(std::string_view path, const CallOptions& options) = 0;
  virtual OperationRef write(std::string_view path, std::uint64_t offset,
                             std::span<const Buffer> from, const CallOptions& options) = 0;
  /// The file becomes these bytes at once, whether it was there or not: readers see all of the old
  /// file or all of the new one. On any failure but `unknown` the old one stays as it was.
  virtual OperationRef put(std::string_view path, std::span<const Buffer> from,
                           const CallOptions& options) = 0;
  virtual OperationRef append(std::string_view path, std::span<const Buffer> from,
                              const CallOptions& options) = 0;
  virtual OperationRef read(std::string_view path, std::uint64_t offset,
                            std::span<const Buffer> into, const CallOptions& options) = 0;
  virtual OperationRef stat(std::string_view path, const CallOptions& options) = 0;
  virtual OperationRef truncate(std::string_view path, std::uint64_t size,
                                const CallOptions& options) = 0;
  virtual OperationRef unlink(std::string_view path, const CallOptions& options) = 0;
  /// willneed: there are `replicas` copies of its bytes once it is done, and readers choose among
  /// them. dontneed: there are only so many, and what lay beyond is dropped. 0: as many as its
  /// namespace has. ok: value = bytes that lie in as many copies now, or that were dropped. gone,
  /// miss: as for read.
  virtual OperationRef advise(std::string_view path, Advice advice, std::uint32_t replicas,
                              const CallOptions& options) = 0;
  /// Of `[offset, offset + length)`, length 0: to the end; on all nodes with a copy. shed: blocks
  /// of BLOCK_BYTES that lie wholly in the range; bytes that are to be on disk get there first. ok:
  /// value = bytes that are in memory now, or were let go (of all copies). miss: some are lost.
  /// full: no room, or more than may be would be pinned. gone: no such file.
  virtual OperationRef advise_memory(std::string_view path, MemoryWish wish, std::uint64_t offset,
                                     std::uint64_t length, const CallOptions& options) = 0;
  /// Of whole pages; one outcome each: ok, miss, full.
  virtual OperationRef advise_pages(std::string_view name_space, std::span<const std::string> keys,
                                    MemoryWish wish, const CallOptions& options) = 0;
  /// Brings a whole file to where it outlives its nodes' processes. ok: value = where all of it is,
  /// a KeptAt. gone: no such file. miss: some of it is lost. denied: on no node is all of it kept.
  virtual OperationRef sync_file(std::string_view path, const CallOptions& options) = 0;
  /// Likewise pages; items: of each the status, and `kept_at`.
  virtual OperationRef sync_pages(std::string_view name_space, std::span<const std::string> keys,
                                  const CallOptions& options) = 0;
  virtual OperationRef list_files(std::string_view prefix, std::string_view after,
                                  std::size_t count_max, const CallOptions& options) = 0;

  // Views: bytes to be read where they lie, when the node is on this host and shares its memory;
  // else copies. A view may outlive its client. ok or miss.
  virtual OperationRef view_page(std::string_view name_space, std::string_view key,
                                 const CallOptions& options) = 0;
  /// Short at the end of the file; without bytes when it is not that long.
  virtual OperationRef view_file(std::string_view path, std::uint64_t offset, std::uint64_t length,
                                 const CallOptions& options) = 0;

  virtual OperationRef clear(std::string_view name_space,
                             const CallOptions& options) = 0;  // files and pages
  virtual OperationRef ping(const CallOptions& options) = 0;
  /// Asks the node of that name to hand over what it has, and to leave the cluster. Returns once it
  /// is told. gone: no such node. invalid: the list of nodes is static.
  virtual OperationRef drain(std::string_view node_name, const CallOptions& options) = 0;

  /// Asks every node that `only` names (empty: every one) what has become of a page or a file, or
  /// about its settings. ok: `replies` has one for each.
  virtual OperationRef ask_nodes(const NodeQuestion& question, const CallOptions& options) = 0;

  /// Lets nodes reach this memory by one-sided transfers, where there are any, until it is taken
  /// back as often. It stays mapped until then. Each range by itself; others may overlap it.
  virtual Error register_memory(Buffer memory) = 0;
  /// Returns once nobody reaches it any more: at the latest a second after the deadlines of the
  /// operations on it. False: it was not registered.
  virtual bool deregister_memory(Buffer memory) = 0;
  /// Why bytes of this memory of a GPU bounce, though it is registered. Empty: they do not, or it
  /// is the host's.
  virtual std::string direct_lack(Buffer memory) = 0;

  /// Readable (poll) while a finished announced operation waits to be taken with `finished`.
  virtual int descriptor() const = 0;
  /// Takes up to `count_max` finished announced operations, oldest first. Each is given out once.
  virtual std::vector<OperationRef> finished(std::size_t count_max) = 0;

  virtual wire::Map map() const = 0;
  virtual ClientCounts counts() const = 0;
};

}  // namespace gd2fs

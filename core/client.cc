#include "client.h"

#include <algorithm>
#include <limits>

#include "cluster_calls.h"
#include "file_advise.h"
#include "file_calls.h"
#include "name.h"
#include "page_calls.h"
#include "range_advise.h"
#include "sync_calls.h"
#include "view_calls.h"

namespace gd2fs {

namespace {

std::string batch_fault(std::string_view name_space, std::span<const std::string> keys) {
  if (std::string fault = namespace_fault(name_space); !fault.empty()) return fault;
  if (keys.size() > BATCH_ITEMS_MAX)
    return "a batch of " + std::to_string(keys.size()) + " keys: cut it into batches of at most " +
           std::to_string(BATCH_ITEMS_MAX);
  for (std::size_t at = 0; at < keys.size(); ++at)
    if (std::string fault = key_fault(keys[at]); !fault.empty())
      return "key " + std::to_string(at) + ": " + fault;
  return {};
}

/// Of pages with several buffers: are the buffers theirs?
std::string counts_fault(const PageBuffers& memory) {
  std::size_t total = 0;
  for (std::size_t at = 0; at < memory.counts.size(); ++at) {
    if (memory.counts[at] > PAGE_BUFFERS_MAX)
      return "page " + std::to_string(at) + " has " + std::to_string(memory.counts[at]) +
             " buffers: at most " + std::to_string(PAGE_BUFFERS_MAX) + " are taken for one page";
    total += memory.counts[at];
  }
  if (total > BATCH_BUFFERS_MAX)
    return "a batch of " + std::to_string(total) + " buffers: cut it into batches of at most " +
           std::to_string(BATCH_BUFFERS_MAX);
  if (total == memory.buffers.size()) return {};
  return "pages of " + std::to_string(total) + " buffers have " +
         std::to_string(memory.buffers.size());
}

std::string page_buffers_fault(std::span<const std::string> keys, const PageBuffers& memory,
                               bool is_put) {
  const bool is_one_each = memory.counts.empty();
  const std::size_t pages = is_one_each ? memory.buffers.size() : memory.counts.size();
  if (keys.size() != pages)
    return std::to_string(keys.size()) + " keys have " + std::to_string(pages) +
           " buffers: give one buffer, or one list of them, for each key";
  if (!is_one_each)
    if (std::string fault = counts_fault(memory); !fault.empty()) return fault;
  std::span<const Buffer> left = memory.buffers;
  for (std::size_t at = 0; at < pages; ++at) {
    const std::size_t count = is_one_each ? 1 : memory.counts[at];
    std::uint64_t bytes = 0;  // each counted as one too many at most, so that no sum overflows
    for (const Buffer& buffer : left.first(count))
      bytes += std::min<std::uint64_t>(buffer.bytes, PAGE_BYTES_MAX + 1);
    left = left.subspan(count);
    if (bytes > PAGE_BYTES_MAX || (is_put && bytes == 0))
      return "the memory of page " + std::to_string(at) + " has " + std::to_string(bytes) +
             " bytes or more: a page has 1 to " + std::to_string(PAGE_BYTES_MAX);
  }
  return buffers_fault(memory.buffers, !is_put);
}

std::string range_fault(std::string_view path, std::uint64_t offset,
                        std::span<const Buffer> buffers, bool is_written) {
  if (std::string fault = path_fault(path); !fault.empty()) return fault;
  if (buffers.size() > BATCH_ITEMS_MAX)
    return "a list of " + std::to_string(buffers.size()) + " buffers: at most " +
           std::to_string(BATCH_ITEMS_MAX) + " are taken";
  for (const Buffer& buffer : buffers)
    if (buffer.bytes > FILE_BYTES_MAX)
      return "a buffer of " + std::to_string(buffer.bytes) + " bytes is longer than any file";
  if (offset > FILE_BYTES_MAX || total_bytes(buffers) > FILE_BYTES_MAX - offset)
    return std::to_string(total_bytes(buffers)) + " bytes at " + std::to_string(offset) +
           " reach past the largest file, " + std::to_string(FILE_BYTES_MAX) + " bytes";
  return buffers_fault(buffers, is_written);
}

std::string replicas_fault(std::uint32_t replicas) {
  if (replicas <= REPLICAS_MAX) return {};
  return std::to_string(replicas) + " copies: at most " + std::to_string(REPLICAS_MAX) +
         " are kept";
}

std::string marks_fault(const CallOptions& options) {
  if (options.tags.size() <= TAGS_BYTES_MAX) return {};
  return std::to_string(options.tags.size()) + " bytes of tags: at most " +
         std::to_string(TAGS_BYTES_MAX) + " go with a write";
}

std::string question_fault(const NodeQuestion& question) {
  if (question.text.size() > NAME_BYTES_MAX)
    return "a question of " + std::to_string(question.text.size()) + " bytes: at most " +
           std::to_string(NAME_BYTES_MAX);
  const bool is_fit = question.is_about_settings || is_valid_name(question.text, question.is_page);
  return is_fit ? "" : "that can be no page and no file";
}

class NetworkClient : public Client {
 public:
  explicit NetworkClient(std::unique_ptr<Network> network)
      : network_(std::move(network)), queue_(std::make_shared<CompletionQueue>()) {
    gate_->network = network_.get();
  }
  ~NetworkClient() override {
    {
      const std::lock_guard lock(gate_->mutex);
      gate_->network = nullptr;
    }
    network_->close();
    queue_->take(std::numeric_limits<std::size_t>::max());  // what nobody took holds the queue too
  }

  OperationRef get_pages(std::string_view name_space, std::span<const std::string> keys,
                         const PageBuffers& into, const CallOptions& options) override {
    return pages(PageAction::get, name_space, keys, into, options);
  }

  OperationRef put_pages(std::string_view name_space, std::span<const std::string> keys,
                         const PageBuffers& from, const CallOptions& options) override {
    return pages(PageAction::put, name_space, keys, from, options);
  }

  OperationRef exists(std::string_view name_space, std::span<const std::string> keys,
                      const CallOptions& options) override {
    return pages(PageAction::exists, name_space, keys, {}, options);
  }

  OperationRef drop_pages(std::string_view name_space, std::span<const std::string> keys,
                          const CallOptions& options) override {
    Started call(*this, options);
    if (!call.passes(batch_fault(name_space, keys))) return call.operation();
    start_drop(call.context(), PageNames(name_space, keys), call.on_end());
    return call.operation();
  }

  OperationRef list_pages(std::string_view name_space, std::string_view after,
                          std::size_t count_max, const CallOptions& options) override {
    Started call(*this, options);
    if (!call.passes(namespace_fault(name_space))) return call.operation();
    if (!call.passes(after.empty() ? "" : key_fault(after))) return call.operation();
    start_list(call.context(), {true, std::string(name_space), std::string(after), count_max},
               call.on_end());
    return call.operation();
  }

  OperationRef create(std::string_view path, const CallOptions& options) override {
    Started call(*this, options);
    if (!call.passes(path_fault(path))) return call.operation();
    if (!call.passes(replicas_fault(options.replicas))) return call.operation();
    start_create(call.context(), std::string(path), call.on_end());
    return call.operation();
  }

  OperationRef write(std::string_view path, std::uint64_t offset, std::span<const Buffer> from,
                     const CallOptions& options) override {
    WriteSpec spec;
    spec.offset = offset;
    return put_bytes(path, std::move(spec), from, options);
  }

  OperationRef put(std::string_view path, std::span<const Buffer> from,
                   const CallOptions& options) override {
    WriteSpec spec;
    spec.is_replace = true;
    return put_bytes(path, std::move(spec), from, options);
  }

  OperationRef append(std::string_view path, std::span<const Buffer> from,
                      const CallOptions& options) override {
    WriteSpec spec;
    spec.is_append = true;
    return put_bytes(path, std::move(spec), from, options);
  }

  OperationRef read(std::string_view path, std::uint64_t offset, std::span<const Buffer> into,
                    const CallOptions& options) override {
    Started call(*this, options);
    if (!call.passes(range_fault(path, offset, into, true))) return call.operation();
    ReadSpec spec;
    spec.path = path;
    spec.offset = offset;
    spec.into.assign(into.begin(), into.end());
    start_read(call.context(), std::move(spec), call.on_end());
    return call.operation();
  }

  OperationRef stat(std::string_view path, const CallOptions& options) override {
    Started call(*this, options);
    if (!call.passes(path_fault(path))) return call.operation();
    start_stat(call.context(), std::string(path), call.on_end());
    return call.operation();
  }

  OperationRef truncate(std::string_view path, std::uint64_t size,
                        const CallOptions& options) override {
    Started call(*this, options);
    if (!call.passes(path_fault(path))) return call.operation();
    start_truncate(call.context(), std::string(path), size, call.on_end());
    return call.operation();
  }

  OperationRef unlink(std::string_view path, const CallOptions& options) override {
    Started call(*this, options);
    if (!call.passes(path_fault(path))) return call.operation();
    start_unlink(call.context(), std::string(path), call.on_end());
    return call.operation();
  }

  OperationRef sync_file(std::string_view path, const CallOptions& options) override {
    Started call(*this, options);
    if (!call.passes(path_fault(path))) return call.operation();
    start_sync_file(call.context(), std::string(path), call.on_end());
    return call.operation();
  }

  OperationRef sync_pages(std::string_view name_space, std::span<const std::string> keys,
                          const CallOptions& options) override {
    Started call(*this, options);
    if (!call.passes(batch_fault(name_space, keys))) return call.operation();
    start_sync_pages(call.context(), PageNames(name_space, keys), call.on_end());
    return call.operation();
  }

  OperationRef advise(std::string_view path, Advice advice, std::uint32_t replicas,
                      const CallOptions& options) override {
    Started call(*this, options);
    if (!call.passes(path_fault(path))) return call.operation();
    if (!call.passes(replicas_fault(replicas))) return call.operation();
    start_advise(call.context(), std::string(path), advice, replicas, call.on_end());
    return call.operation();
  }

  OperationRef advise_memory(std::string_view path, MemoryWish wish, std::uint64_t offset,
                             std::uint64_t length, const CallOptions& options) override {
    Started call(*this, options);
    if (!call.passes(path_fault(path))) return call.operation();
    const bool is_fit = offset <= FILE_BYTES_MAX && length <= FILE_BYTES_MAX - offset;
    if (!call.passes(is_fit ? "" : "a range past the largest file")) return call.operation();
    start_range_advise(call.context(), std::string(path), wish, offset, length, call.on_end());
    return call.operation();
  }

  OperationRef advise_pages(std::string_view name_space, std::span<const std::string> keys,
                            MemoryWish wish, const CallOptions& options) override {
    Started call(*this, options);
    if (!call.passes(batch_fault(name_space, keys))) return call.operation();
    start_page_advise(call.context(), PageNames(name_space, keys), wish, call.on_end());
    return call.operation();
  }

  OperationRef list_files(std::string_view prefix, std::string_view after, std::size_t count_max,
                          const CallOptions& options) override {
    Started call(*this, options);
    const std::size_t longest = std::max(prefix.size(), after.size());
    if (!call.passes(longest > PATH_BYTES_MAX ? "a prefix of " + std::to_string(longest) +
                                                    " bytes is longer than any path"
                                              : ""))
      return call.operation();
    start_list(call.context(), {false, std::string(prefix), std::string(after), count_max},
               call.on_end());
    return call.operation();
  }

  OperationRef view_page(std::string_view name_space, std::string_view key,
                         const CallOptions& options) override {
    Started call(*this, options);
    const std::string text(key);
    if (!call.passes(batch_fault(name_space, std::span(&text, 1)))) return call.operation();
    start_page_view(call.context(), page_name(name_space, text), call.on_end());
    return call.operation();
  }

  OperationRef view_file(std::string_view path, std::uint64_t offset, std::uint64_t length,
                         const CallOptions& options) override {
    Started call(*this, options);
    if (!call.passes(range_fault(path, offset, {}, false))) return call.operation();
    start_file_view(call.context(), std::string(path), offset, length, call.on_end());
    return call.operation();
  }

  OperationRef clear(std::string_view name_space, const CallOptions& options) override {
    Started call(*this, options);
    if (!call.passes(namespace_fault(name_space))) return call.operation();
    start_clear(call.context(), std::string(name_space), call.on_end());
    return call.operation();
  }

  OperationRef ping(const CallOptions& options) override {
    Started call(*this, options);
    start_ping(call.context(), call.on_end());
    return call.operation();
  }

  OperationRef drain(std::string_view node_name, const CallOptions& options) override {
    Started call(*this, options);
    start_drain(call.context(), std::string(node_name), call.on_end());
    return call.operation();
  }

  OperationRef ask_nodes(const NodeQuestion& question, const CallOptions& options) override {
    Started call(*this, options);
    if (!call.passes(question_fault(question))) return call.operation();
    start_ask_nodes(call.context(), question, call.on_end());
    return call.operation();
  }

  Error register_memory(Buffer memory) override {
    if (memory.at == nullptr || memory.bytes == 0)
      return {"no memory to register", "give its address and its length", Status::invalid};
    Registrations* const all = network_->registrations();
    return all == nullptr ? Error{} : all->add(memory);
  }
  bool deregister_memory(Buffer memory) override {
    Registrations* const all = network_->registrations();
    return all == nullptr || all->drop(memory);
  }

  std::string direct_lack(Buffer memory) override {
    Bouncer* const bouncer = network_->bouncer();
    return bouncer == nullptr ? "" : bouncer->direct_lack(memory);
  }

  int descriptor() const override { return queue_->descriptor(); }
  std::vector<OperationRef> finished(std::size_t count_max) override {
    return queue_->take(count_max);
  }
  wire::Map map() const override { return network_->routes()->map; }
  ClientCounts counts() const override {
    const BounceCounts bounced = network_->bounce_counts();
    return {network_->hedges().hedged(), network_->hedges().won(), bounced.in_bytes,
            bounced.out_bytes,           bounced.faults,           bounced.direct_in_bytes,
            bounced.direct_out_bytes,    bounced.checked_bytes,    bounced.refused};
  }

 private:
  /// What an operation may outlive: it cancels through this, for as long as the client is there.
  struct Gate {
    std::mutex mutex;  // Guards: network. Held while requests are told to end.
    Network* network = nullptr;
  };

  /// An operation that begins.
  class Started {
   public:
    Started(NetworkClient& client, const CallOptions& options)
        : client_(client), options_(options) {
      auto gate = client.gate_;
      operation_ = std::make_shared<OperationState>(
          options, client.queue_, [gate](std::shared_ptr<OperationState> operation) {
            const std::lock_guard lock(gate->mutex);
            if (gate->network != nullptr) gate->network->cancel(operation);
          });
      client.network_->call_begins();
    }

    OperationRef operation() const { return operation_; }

    /// False: the call breaks a rule, and the operation has ended.
    bool passes(const std::string& fault) {
      if (fault.empty()) return true;
      Outcome outcome = outcome_of(Status::invalid);
      outcome.message = fault;
      on_end()(std::move(outcome));
      return false;
    }

    CallContext context() const {
      const std::uint32_t default_ms = client_.network_->options().timeout_ms;
      const std::uint32_t timeout_ms = options_.timeout_ms == 0 ? default_ms : options_.timeout_ms;
      return {*client_.network_, operation_, now_ms() + timeout_ms, options_};
    }

    Call::OnEnd on_end() const {
      return [network = client_.network_.get(), operation = operation_](Outcome outcome) {
        operation->finish(std::move(outcome));
        network->call_ends();
      };
    }

   private:
    NetworkClient& client_;
    const CallOptions& options_;
    std::shared_ptr<OperationState> operation_;
  };

  OperationRef pages(PageAction action, std::string_view name_space,
                     std::span<const std::string> keys, const PageBuffers& memory,
                     const CallOptions& options) {
    Started call(*this, options);
    if (!call.passes(batch_fault(name_space, keys))) return call.operation();
    if (!call.passes(marks_fault(options))) return call.operation();
    const bool has_buffers = action != PageAction::exists;
    if (has_buffers && !call.passes(page_buffers_fault(keys, memory, action == PageAction::put)))
      return call.operation();
    start_pages(call.context(), action, PageNames(name_space, keys), PageMemory(memory),
                call.on_end());
    return call.operation();
  }

  OperationRef put_bytes(std::string_view path, WriteSpec spec, std::span<const Buffer> from,
                         const CallOptions& options) {
    Started call(*this, options);
    if (!call.passes(range_fault(path, spec.offset, from, false))) return call.operation();
    if (!call.passes(replicas_fault(options.replicas))) return call.operation();
    if (!call.passes(marks_fault(options))) return call.operation();
    spec.path = path;
    spec.from.assign(from.begin(), from.end());
    start_write(call.context(), std::move(spec), call.on_end());
    return call.operation();
  }

  std::unique_ptr<Network> network_;
  std::shared_ptr<CompletionQueue> queue_;
  std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
};

}  // namespace

const char* transport_name(Transport transport) noexcept {
  switch (transport) {
    case Transport::shm: return "shm";
    case Transport::rdma: return "rdma";
    case Transport::unix_socket: return "unix";
    case Transport::tcp: return "tcp";
    default: return "auto";
  }
}

Result<Transport> parse_transport(std::string_view text) {
  for (const Transport each : {Transport::automatic, Transport::shm, Transport::rdma,
                               Transport::unix_socket, Transport::tcp}) {
    if (text == transport_name(each)) return each;
  }
  return Error{"unknown transport `" + std::string(text) + "`",
               "use `auto`, `shm`, `rdma`, `unix` or `tcp`", Status::invalid};
}

Result<std::unique_ptr<Client>> Client::connect(const ClientOptions& options) {
  auto network = Network::open(options);
  if (!network) return network.error();
  return std::unique_ptr<Client>(std::make_unique<NetworkClient>(std::move(*network)));
}

}  // namespace gd2fs

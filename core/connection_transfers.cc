// What a connection does with one-sided transfers: opens a way to its client, starts what is asked
// for, and ends it all with the stream.
#include "connection.h"
#include "worker.h"

namespace gd2fs::serve {

void Connection::handle_peer(const Inlet::Frame& frame) {
  const auto address = wire::decode_peer(frame.table);
  if (!may_transfer_ || transfers_ != nullptr || !address || address->empty())
    return fault("a PEER is malformed, came twice, or was not granted");
  may_transfer_ = false;  // that was it
  auto opened = Transfers::open(node_.rdma.context, node_.rdma.memory);
  if (!opened) return wire::encode_peer_answer(sender_.replies().bytes, opened.error().message);
  transfers_ = std::move(*opened);
  worker_.watch_transfers(*this, transfers_->descriptor());
  transfers_->connect(*address, [this](const std::string& fault) {
    if (phase_ == Phase::open) wire::encode_peer_answer(sender_.replies().bytes, fault);
  });
}

void Connection::handle_key(const Inlet::Frame& frame) {
  auto key = wire::decode_key(frame.table);
  if (!key || transfers_ == nullptr) return fault("a KEY is malformed, or came before a PEER");
  if (std::string reason = transfers_->take(*key); !reason.empty()) fault(reason);
}

void Connection::handle_source(const Inlet::Frame& frame) {
  const auto source = wire::decode_source(frame.table, frame.header.items);
  if (!source || transfers_ == nullptr || frame.header.request > last_request_)
    return fault("a SOURCE is malformed, or of no request");
  auto targets = transfers_->find(source->sinks);
  if (!targets) return fault("a SOURCE names memory that no KEY has named");
  const std::string reason = receiver_.pull(frame.header.request, *source, std::move(*targets));
  if (!reason.empty()) fault(reason);
}

void Connection::place(ReadJob job) {
  const bool is_fit = transfers_ != nullptr && transfers_->is_connected() && !job.is_view();
  auto targets = is_fit ? transfers_->find(job.body().sinks) : std::nullopt;
  if (!targets) return fault("a request names memory that no KEY has named");
  placer_.add(std::move(job), std::move(*targets));
}

/// True: there is more to do at once.
bool Connection::move_bytes() {
  if (transfers_ == nullptr) return false;
  Replies& replies = sender_.replies();
  const bool has_moved = transfers_->progress();
  if (!sender_.is_full()) {
    if (receiver_.has_to_pull(*transfers_)) receiver_.start_pull(*transfers_, replies);
    if (placer_.has_work(*transfers_)) placer_.turn(*transfers_, replies, sender_.wake);
  }
  if (transfers_->is_broken()) {
    if (transfers_->is_connected()) {
      fault("a transfer has failed: its client is gone, or its memory is");
    } else {
      end_transfers();  // tells its client, if nobody has: that goes on without
    }
    return true;
  }
  const bool can_start =
      !sender_.is_full() && (receiver_.has_to_pull(*transfers_) || placer_.has_work(*transfers_));
  return has_moved || can_start || !transfers_->may_sleep();
}

/// Nothing of this node reaches the client's memory any more.
void Connection::end_transfers() {
  placer_.abandon();
  if (transfers_ == nullptr) return;
  worker_.forget_transfers(transfers_->descriptor());
  transfers_ = nullptr;
}

}  // namespace gd2fs::serve

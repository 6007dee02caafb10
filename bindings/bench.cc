// Bench: the ceilings that cases are held against, and the clock of the interpreter's lock.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>

#include "../core/bench/bare_loop.h"
#include "../core/bench/copier.h"
#include "../core/bench/disk_reader.h"
#include "../core/bench/raw_line.h"
#include "../core/bench/raw_server.h"
#include "../core/bench/sealer.h"
#include "borrow.h"
#include "fault.h"
#include "gil.h"
#include "modules.h"
#include "signals.h"

namespace nb = nanobind;

namespace gd2fs::bindings {

namespace {

using bench::BareLine;
using bench::Copier;
using bench::CopyKind;
using bench::DiskReader;
using bench::RawLine;
using bench::RawServer;

ArenaOptions arena_of(const std::string& kind, std::size_t bytes) {
  auto options = parse_arena(kind, bytes);
  if (!options) raise(options.error());
  return *options;
}

/// The object that `make` answers, made without the GIL and deaf to signals.
template <class Make>
auto made(const Make& make) {
  auto result = [&] {
    GilReleased released;
    SignalsBlocked blocked;
    return make();
  }();
  if (!result) raise(result.error());
  return std::move(*result);
}

/// Runs `work` without the GIL; it answers whether the other end did its part.
template <class Work>
void run(const Work& work) {
  bool is_done = false;
  {
    GilReleased released;
    is_done = work();
  }
  if (!is_done) {
    raise(FaultKind::unavailable, "the raw server is gone, or sent other bytes than it has",
          "look at its log");
  }
}

/// One buffer of a call. It is borrowed until this goes.
class OneBuffer {
 public:
  OneBuffer(nb::handle buffer, Access access) { borrowed_.take(buffer, access); }
  std::span<std::byte> bytes() const {
    if (borrowed_.pieces().size() != 1) return {};
    const Buffer& piece = borrowed_.pieces().front();
    return {static_cast<std::byte*>(piece.at), piece.bytes};
  }

 private:
  Borrowed borrowed_;
};

void bind_raw(nb::module_& module) {
  nb::class_<RawServer>(module, "RawServer", "The other end of ceilings.")
      .def(nb::new_([](std::size_t memory_bytes, const std::string& arena) {
             const ArenaOptions options = arena_of(arena, memory_bytes);
             return made([&] { return RawServer::start(options); });
           }),
           nb::arg("memory_bytes"), nb::arg("arena"))
      .def_prop_ro("tcp", &RawServer::tcp_address)
      .def_prop_ro("unix", &RawServer::unix_address)
      .def_prop_ro("bare_tcp", &RawServer::bare_tcp_address)
      .def_prop_ro("bare_unix", &RawServer::bare_unix_address)
      .def_prop_ro("rung", &RawServer::rung_name)
      .def_prop_ro("can_vmsplice", &RawServer::can_vmsplice);
  nb::class_<RawLine>(module, "RawLine", "Bulk transfers from and to a RawServer.")
      .def(nb::new_([](const std::string& address, std::size_t streams) {
             return made([&] { return RawLine::connect(address, streams); });
           }),
           nb::arg("address"), nb::arg("streams"))
      .def(
          "read",
          [](RawLine& line, nb::handle into, bool is_spliced) {
            const OneBuffer buffer(into, Access::write);
            run([&] { return line.read(buffer.bytes(), is_spliced); });
          },
          nb::arg("into"), nb::kw_only(), nb::arg("is_spliced"))
      .def(
          "write",
          [](RawLine& line, nb::handle from) {
            const OneBuffer buffer(from, Access::read);
            run([&] { return line.write(buffer.bytes()); });
          },
          nb::arg("source"));
}

void bind_bare(nb::module_& module) {
  nb::class_<BareLine>(module, "BareLine", "Small requests to the bare loop of a RawServer.")
      .def(nb::new_([](const std::string& address) {
             return made([&] { return BareLine::connect(address); });
           }),
           nb::arg("address"))
      .def(
          "fill",
          [](BareLine& line, nb::handle keys, std::uint32_t count, std::uint32_t item_bytes) {
            const OneBuffer buffer(keys, Access::read);
            run([&] { return line.fill(buffer.bytes(), count, item_bytes); });
          },
          nb::arg("keys"), nb::kw_only(), nb::arg("count"), nb::arg("item_bytes"))
      .def(
          "get",
          [](BareLine& line, nb::handle into, std::size_t batches, std::size_t depth,
             bool is_verifying) {
            const OneBuffer buffer(into, Access::write);
            run([&] { return line.get(buffer.bytes(), batches, depth, is_verifying); });
          },
          nb::arg("into"), nb::kw_only(), nb::arg("batches"), nb::arg("depth"),
          nb::arg("is_verifying"))
      .def(
          "exists",
          [](BareLine& line, std::size_t batches) { run([&] { return line.exists(batches); }); },
          nb::kw_only(), nb::arg("batches"));
}

void bind_copier(nb::module_& module) {
  nb::class_<Copier>(module, "Copier", "Copies out of memory of a node's kind.")
      .def(nb::new_([](std::size_t memory_bytes, const std::string& arena, std::size_t threads) {
             const ArenaOptions options = arena_of(arena, memory_bytes);
             return made([&] { return Copier::make(options, threads); });
           }),
           nb::arg("memory_bytes"), nb::arg("arena"), nb::arg("threads"))
      .def(
          "copy",
          [](Copier& copier, nb::handle into, bool is_nontemporal) {
            const OneBuffer buffer(into, Access::write);
            run([&] {
              copier.run(buffer.bytes(), is_nontemporal ? CopyKind::nontemporal : CopyKind::plain);
              return true;
            });
          },
          nb::arg("into"), nb::kw_only(), nb::arg("is_nontemporal"))
      .def_prop_ro("rung", &Copier::rung_name);
}

DiskIoKind io_kind_of(const std::string& name) {
  if (name == "auto") return DiskIoKind::automatic;
  if (name == "uring") return DiskIoKind::uring;
  if (name == "threads") return DiskIoKind::threads;
  raise(FaultKind::invalid_request, "there is no way of disk I/O called `" + name + "`",
        "auto, uring or threads");
}

std::unique_ptr<DiskReader> make_disk_reader(const std::string& folder, std::uint64_t bytes,
                                             std::uint64_t record_bytes, std::size_t depth,
                                             const std::string& io, const std::string& arena) {
  bench::DiskReaderOptions options;
  options.disk.places = {{folder, 0}};
  options.disk.depth = depth;
  options.disk.io = io_kind_of(io);
  options.disk.node_name = "bench";
  options.bytes = bytes;
  options.record_bytes = record_bytes;
  options.arena = arena_of(arena, record_bytes);
  return made([&] { return DiskReader::make(options); });
}

void bind_disk(nb::module_& module) {
  nb::class_<DiskReader>(module, "DiskReader", "The disk tier's engine alone.")
      .def(nb::new_(&make_disk_reader), nb::arg("folder"), nb::kw_only(), nb::arg("bytes"),
           nb::arg("record_bytes"), nb::arg("depth"), nb::arg("io"), nb::arg("arena"))
      .def(
          "read",
          [](DiskReader& reader, double seconds, bool is_verifying) {
            double rate = 0;
            {
              GilReleased released;
              rate = reader.read(seconds, is_verifying);
            }
            if (rate > 0) return rate;
            raise(FaultKind::unavailable, "a record could not be read, or is not what was written",
                  "look at the kernel's log");
          },
          nb::arg("seconds"), nb::kw_only(), nb::arg("is_verifying"))
      .def("scan",
           [](DiskReader& reader) {
             const DiskCounts counts = made([&] { return reader.scan(); });
             return std::tuple(counts.scanned_records, counts.scanned_bytes, counts.scan_ms);
           })
      .def_prop_ro("written_bytes_per_s", &DiskReader::written_bytes_per_s)
      .def_prop_ro("is_uring", &DiskReader::is_uring)
      .def_prop_ro("is_direct", &DiskReader::is_direct);
}

}  // namespace

void bind_bench(nb::module_& module) {
  bind_raw(module);
  bind_bare(module);
  bind_copier(module);
  bind_disk(module);
  module.def(
      "seal_rate",
      [](const std::string& cipher, double seconds) {
        return made([&] { return bench::seal_rate(cipher, seconds); });
      },
      nb::arg("cipher"), nb::arg("seconds"));
  module.def("gil_released_ns", &GilReleased::total_ns,
             "Nanoseconds that this thread's calls have spent without the interpreter's lock.");
}

}  // namespace gd2fs::bindings

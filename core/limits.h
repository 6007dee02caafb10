// Limits: every size, count and name length of the system, as sums where one follows from others.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gd2fs {

inline constexpr std::size_t KiB = 1024;
inline constexpr std::size_t MiB = 1024 * KiB;
inline constexpr std::size_t GiB = 1024 * MiB;
inline constexpr std::size_t TiB = 1024 * GiB;

// Storage: what is summed, what is cut, what is placed.
inline constexpr std::size_t GRAIN_BYTES = 4 * KiB;     // the arena is cut in these
inline constexpr std::size_t BLOCK_BYTES = 64 * KiB;    // one checksum covers one block of a piece
inline constexpr std::size_t PART_BYTES_MAX = 2 * MiB;  // one extent is at most this long
inline constexpr std::size_t CHUNK_BYTES_DEFAULT = 4 * MiB;  // a file is cut at multiples of this
inline constexpr std::size_t CHUNK_BYTES_MIN = BLOCK_BYTES;
inline constexpr std::size_t CHUNK_BYTES_MAX = 1 * GiB;
inline constexpr std::size_t PAGE_BYTES_MAX = 1 * GiB;
inline constexpr std::uint64_t FILE_BYTES_MAX = 1 * TiB;
inline constexpr std::size_t SEGMENTS_PER_CHUNK_MAX = 256;  // then the writer rewrites the chunk
inline constexpr std::size_t RECORDS_MAX =
    1'000'000;  // file records one node keeps; the least used go first

// Names.
inline constexpr std::size_t NAMESPACE_BYTES_MAX = 255;
inline constexpr std::size_t PATH_BYTES_MAX = 1024;  // a whole path, namespace included
inline constexpr std::size_t KEY_BYTES_MAX = 512;
inline constexpr std::size_t NAME_BYTES_MAX =
    PATH_BYTES_MAX;  // on the wire: a path, or namespace NUL key
static_assert(NAMESPACE_BYTES_MAX + 1 + KEY_BYTES_MAX <= NAME_BYTES_MAX);
inline constexpr std::size_t CLUSTER_BYTES_MAX = 128;
inline constexpr std::size_t NODE_NAME_BYTES_MAX = 128;
inline constexpr std::size_t TOKEN_NAME_BYTES_MAX = 32;
inline constexpr std::size_t TOKEN_SECRET_BYTES_MIN = 32;  // of 64 letters: 192 bits
inline constexpr std::size_t TOKEN_SECRET_BYTES_MAX = 256;
inline constexpr std::size_t TOKENS_MAX = 4096;  // that a node knows
inline constexpr std::size_t NODES_MAX = 1024;
inline constexpr std::size_t REPLICAS_MAX = 8;          // copies of one piece or record
inline constexpr std::size_t MAP_NAMESPACES_MAX = 256;  // with copies of their own count
// Of the newest, on every node: so many changes may come before it has looked at all its records.
inline constexpr std::size_t MAPS_KEPT = 64;

// Wire.
inline constexpr std::size_t HEADER_BYTES = 32;
inline constexpr std::size_t PAYLOAD_BYTES_MAX = 1 * MiB;  // of one DATA frame
inline constexpr std::size_t TABLE_BYTES_MAX = 256 * KiB;
inline constexpr std::size_t FRAME_BYTES_MAX =
    PAYLOAD_BYTES_MAX + TABLE_BYTES_MAX;  // after the header
inline constexpr std::size_t PAYLOAD_BYTES_SHARED =
    256 * KiB;                                           // of one DATA frame while others wait
inline constexpr std::size_t LEASE_BYTES_MAX = 4 * MiB;  // of one LEASE frame; none on the socket
inline constexpr std::size_t HELLO_BYTES_MAX = 512;
inline constexpr std::size_t ITEMS_MAX = 4096;  // of one frame
inline constexpr std::size_t BATCH_ITEMS_MAX =
    65'536;  // of one call; the client cuts it into frames
inline constexpr std::size_t PAGE_BUFFERS_MAX = 1024;  // that the bytes of one page lie in
inline constexpr std::size_t BATCH_BUFFERS_MAX =
    16 * BATCH_ITEMS_MAX;  // of all pages of one call: 16 MiB of addresses and sizes
inline constexpr std::size_t REQUESTS_MAX = 64;          // in flight on one stream
inline constexpr std::size_t PEER_BYTES_MAX = 16 * KiB;  // of a worker's address
inline constexpr std::size_t KEY_PACKED_BYTES_MAX = 4 * KiB;
inline constexpr std::size_t KEYS_MAX = 4096;  // registrations that one stream has named
inline constexpr std::size_t TRANSFER_BYTES_MAX = 4 * MiB;    // of one batch of one-sided transfers
inline constexpr std::size_t TRANSFERS_BYTES_MAX = 16 * MiB;  // of one stream, under way at once
inline constexpr std::size_t EAGER_BYTES_MAX =
    256 * KiB;  // of bodies sent before their grant, per request
inline constexpr std::size_t CONNECTIONS_MAX = 4096;  // per node
inline constexpr std::size_t UNAUTHENTICATED_MAX =
    64;  // connections before WELCOME, per source address
// Of all sources together; as many again for sources that have no other one.
inline constexpr std::size_t STRANGERS_MAX = 512;
// New connections of one source that come to nothing: so many at once, so many a second.
inline constexpr std::size_t STRANGERS_BURST = 1024;
inline constexpr std::size_t STRANGERS_PER_S = 256;
inline constexpr std::size_t SOURCES_MAX = 8192;  // that are remembered
inline constexpr std::uint32_t HELLO_MS = 2'000;  // from accept to PROOF
inline constexpr std::uint32_t IDLE_MS =
    600'000;  // a stream without any frame for this long is closed
inline constexpr std::uint32_t HOLD_SILENCE_MS =
    10'000;  // a reader that takes nothing of what is held for it for this long is cut off
inline constexpr std::uint32_t RETRY_MS =
    10;  // advised pause when a node is full of half-written bytes
// While their writer's stream lives, staged pieces wait so long for their commit; then the owner
// asks home whether the tag is listed. When the stream ends it asks at once.
inline constexpr std::uint32_t STAGED_MS = 120'000;
inline constexpr std::uint16_t PORT_DEFAULT = 7527;

// A client's memory of the host that bytes of GPUs pass through.
inline constexpr std::size_t BOUNCE_BYTES_DEFAULT = 128 * MiB;
inline constexpr std::uint32_t CHECKED_ONE_IN = 64;  // of what goes straight to a GPU
inline constexpr std::size_t BOUNCE_BYTES_MIN = 1 * MiB;
inline constexpr std::size_t BOUNCE_BYTES_MAX = 64 * GiB;

// Shares of the arena (core.md 2.4): what may be half-written, staged, or dropped but still being
// sent.
inline constexpr std::size_t FILLING_SHARE = 8;  // 1/8 of the arena
inline constexpr std::size_t FILLING_PER_CONNECTION_SHARE =
    64;  // 1/64, or four chunks up to 1/16; one piece always
inline constexpr std::size_t EVICT_SLACK_BYTES =
    64 * MiB;  // one allocation evicts at most its size plus this

// The disk tier.
inline constexpr std::size_t DISK_SEGMENT_BYTES = 256 * MiB;  // one file of the log
inline constexpr std::size_t DISK_SEGMENTS_MIN = 8;           // of a place: else they are smaller
inline constexpr std::size_t DISK_BYTES_MIN = 8 * MiB;        // of a place
inline constexpr std::size_t DISK_DEPTH = 16;                 // reads and writes in flight
inline constexpr std::size_t DISK_DEPTH_MAX = 256;
inline constexpr std::size_t DISK_PLACES_MAX = 16;
// Accepted and not yet on its way to the disk; a single record always is.
inline constexpr std::size_t DISK_QUEUE_BYTES = 64 * MiB;
inline constexpr std::uint32_t DISK_RETRY_MS = 10'000;  // a place that failed is tried again

// Rules of namespaces.
inline constexpr std::size_t EVICTION_CLASSES = 8;  // 0 goes first
inline constexpr std::uint8_t EVICTION_CLASS_DEFAULT = 3;
inline constexpr std::size_t PINNED_SHARE = 2;             // 1/2 of the arena at most is pinned
inline constexpr std::size_t TAGS_BYTES_MAX = 1024;        // that a caller gives a write
inline constexpr std::size_t JUDGED_LOTS_MAX = 4096;       // offers that wait for a site's rule
inline constexpr std::uint32_t JUDGE_MS = 1'000;           // then they go on without
inline constexpr std::size_t QUESTIONS_MAX = 256;          // that wait for whoever runs the node
inline constexpr std::size_t DEPARTURES_DEFAULT = 65'536;  // that a node remembers, 4 MiB of them
inline constexpr std::size_t RULED_NAMESPACES_MAX = 255;   // that have rules of their own

// Curves of what larger memories would find: of a node at most 160 B for each key that is followed,
// and 20 KiB for each namespace that is counted (namespace_book.h).
inline constexpr std::size_t CURVE_KEYS_MAX = 32 * 1024;       // of those that share its memory
inline constexpr std::size_t CURVE_QUOTA_KEYS_MAX = 4 * 1024;  // of one that has its own by a quota
inline constexpr std::size_t CURVE_QUOTAS_MAX = 16;            // of these; of others none are
inline constexpr std::size_t CURVE_LOOKS_PER_S_MAX = 1024;     // more: fewer keys are followed,
inline constexpr std::size_t CURVE_LOOKS_BURST = 16 * 1024;    // but for so many at once
inline constexpr std::int64_t CURVE_WINDOW_MS = 1'800'000;     // and the one before are told

// Recordings of what is asked.
inline constexpr std::size_t KEY_TRACE_BYTES_MAX = 64 * MiB;  // until somebody takes it
inline constexpr std::int64_t KEY_TRACE_SILENCE_MS = 10'000;  // then nobody records any more

}  // namespace gd2fs

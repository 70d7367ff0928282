//! Every bound of the protocol, in one place. What happens at a bound is said beside it.

/// Bytes of payload in one record. Larger records are refused by the receiver, which then closes the stream.
///
/// 256 KiB keeps a record in a core's L2 cache between hashing, sealing and the copy into the socket.
pub const RECORD_PAYLOAD_MAX: usize = 256 << 10;

/// Default bytes of a chunk, the unit of reading, writing, acknowledging and resuming.
pub const CHUNK_SIZE_DEFAULT: u32 = 4 << 20;
/// Smallest chunk that a peer may ask for.
pub const CHUNK_SIZE_MIN: u32 = 256 << 10;
/// Largest chunk that a peer may ask for.
pub const CHUNK_SIZE_MAX: u32 = 64 << 20;

/// Files in one batch parcel.
pub const BATCH_FILES_MAX: usize = 512;

/// Bytes of a control frame after authentication. A longer one ends the connection.
pub const FRAME_MAX: usize = 4 << 20;
/// Bytes of a control frame before authentication.
pub const FRAME_MAX_UNAUTHENTICATED: usize = 8 << 10;

/// Bytes of a relative path, as Linux's `PATH_MAX` without the final NUL.
pub const PATH_MAX: usize = 4095;
/// Bytes of one name, as Linux's `NAME_MAX`.
pub const NAME_MAX: usize = 255;

/// Bytes of control frames that an end of a session keeps until the other end has acknowledged them, where each counts 64
/// more: at this number it sends no further one. An end that is sent more ends the session.
pub const UNACKNOWLEDGED_BYTES_MAX: usize = 8 << 20;

/// Entries of the manifest between "sent" and "done": the source stops scanning at this number.
pub const OUTSTANDING_ENTRIES_MAX: usize = 64 << 10;
/// Bytes of paths, targets and extended attributes of the same entries: the source stops scanning at this
/// number. Files that start again may have grown attributes, so a destination ends the session only at twice it,
/// and a source gives up what would lead there.
pub const OUTSTANDING_ENTRY_BYTES_MAX: usize = 32 << 20;
/// Bytes of one entry. A source leaves the extended attributes of a larger one out and reports the entry as
/// failed; a destination ends the session.
pub const ENTRY_BYTES_MAX: usize = 1 << 20;
/// Entries in one page of the manifest.
pub const PAGE_ENTRIES_MAX: usize = 1024;
/// Bytes of one page of the manifest.
pub const PAGE_BYTES_MAX: usize = 256 << 10;

/// Names in the list of a copy.
pub const NAMES_MAX: usize = 4_000_000;
/// Bytes of the same list, where a name counts as its bytes and 32. They are memory of both ends while the copy runs.
pub const NAMES_BYTES_MAX: usize = 256 << 20;

/// Times that one parcel may be sent because it arrived corrupt, before its files are given up (exit code 5).
pub const REPAIRS_PER_PARCEL_MAX: u8 = 5;
/// Times that one parcel may be sent again because its stream was lost, before its files are given up (exit code 6): a path that damages the same
/// bytes each time costs a stream with a key, for nothing of a damaged record can be believed.
pub const LOSSES_PER_PARCEL_MAX: u8 = 16;
/// Times that a file may start again because its source changed, before it is given up (exit code 6).
pub const RESTARTS_PER_FILE_MAX: u8 = 3;

/// Parcels between "being read" and "landed": the source reads no further at this number, and a destination
/// remembers no more acknowledgements than this for a source that does not take them. With chunks of the
/// smallest size that is 16 GiB in flight, 320 ms of 400 Gb/s.
pub const PARCELS_UNLANDED_MAX: usize = 64 << 10;

/// Parcels that a destination names as arrived when a stream ends: each has one of its buffers until it has landed, and
/// there are no more. A source that is told of more ends the session.
pub const ARRIVED_PARCELS_MAX: usize = 4096;

/// Disks that one end tells apart; further ones share the numbers of those. A source that is told of another one ends
/// the session.
pub const DISKS_MAX: u8 = 16;

/// Bytes of a reason that goes with an outcome; longer ones are cut.
pub const REASON_BYTES_MAX: usize = 4 << 10;
/// Characters of a congestion control's name: `TCP_CA_NAME_MAX` of the kernel, without its end.
pub const CONGESTION_CHARS_MAX: usize = 15;
/// Characters of a digest in hexadecimal: twice the longest, SHA-256's.
pub const DIGEST_CHARS_MAX: usize = 128;
/// Paths in one message of what a dry run would delete.
pub const WOULD_DELETE_MAX: usize = 512;

/// Bytes of names that a destination keeps in order to delete what is not among them. In a directory that
/// would take more nothing is deleted, and it is reported as failed.
pub const DELETE_NAMES_BYTES_MAX: usize = 256 << 20;
/// Names of failed files that a destination remembers, so that no hard link is made to what stood there
/// before. Beyond this number every link to a file that is not under way fails; a second run mends that.
pub const FAILED_NAMES_MAX: usize = 64 << 10;

/// Ranges in a chunk set on the wire. A file that arrives in more pieces is given up.
pub const CHUNK_RANGES_MAX: usize = 64 << 10;

/// Bytes of one message of events. An agent begins another message before it; of a summary that is longer the
/// last errors are left out.
pub const EVENTS_BYTES_MAX: usize = 256 << 10;
/// Addresses that an agent tries to reach the other one of a relayed copy.
pub const RELAY_ADDRESSES_MAX: usize = 16;
/// Bytes of the beginning of a connection that are looked at to tell which of several instances is meant. A ClientHello that is
/// longer is of none; ours has less than 2 KiB.
pub const FIRST_BYTES_MAX: usize = 16 << 10;
/// Addresses of a host whose probes one instance wants to be handed by its door, and that a door has for all of them. A door ends the
/// connection to an instance that names more.
pub const PROBE_ADDRESSES_MAX: usize = 64;

//! Every bound of the state, and the times by which it acts.

/// Longest name of anything that is named: transfers, collaborations, tokens, endpoints. Bytes.
pub const NAME_MAX: usize = 128;
/// Longest path of a location. Bytes; Linux knows 4096.
pub const PATH_MAX: usize = 4096;
/// Longest text by people or agents that is kept: reasons, evidence. Bytes; what is longer is cut.
pub const TEXT_MAX: usize = 512;
/// Longest text of a network, of shares, or of bookings. Bytes.
pub const FILE_TEXT_MAX: usize = 8 << 20;
/// Transfers that have not ended.
pub const TRANSFERS_MAX: usize = 100_000;
/// Transfers that have ended and are remembered; the oldest go first.
pub const ENDED_MAX: usize = 100_000;
/// How long a transfer that has ended is remembered: 30 days, in ms.
pub const ENDED_KEPT_MS: u64 = 30 * 86_400_000;
/// Sources of a transfer.
pub const SOURCES_MAX: usize = 16;
/// Destinations of a transfer: its legs.
pub const LEGS_MAX: usize = 64;
/// Transfers that a transfer waits for.
pub const AFTER_MAX: usize = 256;
/// Files of a page.
pub const PAGE_FILES_MAX: u32 = 10_000;
/// Pages of a transfer: 10⁸ files.
pub const PAGES_MAX: u32 = 10_000;
/// Longest [`crate::Session::pick`]: a bit for each file of a page, and a little. Bytes.
pub const PICK_MAX: usize = 1_280;
/// The highest urgency; 0 is the usual.
pub const URGENCY_MAX: u8 = 9;
/// Endpoints.
pub const ENDPOINTS_MAX: usize = 4_096;
/// Hosts that see an endpoint.
pub const ENDPOINT_HOSTS_MAX: usize = 256;
/// Agents.
pub const AGENTS_MAX: usize = 4_096;
/// Enrolment tokens that wait to be used.
pub const ENROLMENTS_MAX: usize = 4_096;
/// Longest life of an enrolment token: a week, in ms.
pub const ENROLMENT_LIFE_MAX_MS: u64 = 7 * 86_400_000;
/// API tokens.
pub const TOKENS_MAX: usize = 4_096;
/// Limits from outside.
pub const LIMITS_MAX: usize = 4_096;
/// Links that are down, or were of late.
pub const LINKS_MAX: usize = 65_536;
/// Idempotency keys; the oldest go first.
pub const KEYS_MAX: usize = 100_000;
/// How long an idempotency key is kept: a day, in ms.
pub const KEY_KEPT_MS: u64 = 86_400_000;
/// Sessions that run.
pub const SESSIONS_MAX: usize = 16_384;
/// Sessions that ended early and of which it is kept what they named; the oldest go first.
pub const UNFINISHED_MAX: usize = 1_024;
/// Classes of which usage is kept.
pub const USAGE_MAX: usize = 8_192;
/// Generations that an event reserves.
pub const GENERATION_BLOCK: u64 = 1 << 20;
/// Numbers of sessions that are passed over at a restore, at least; they go on from the time in ms then, for a controller begins fewer.
pub const RESTORED_SESSIONS: u64 = 1 << 20;
/// Generations go on from the time in ms, times this: more than a controller can use.
pub const RESTORED_GENERATIONS_PER_MS: u64 = 1_000;
/// While sessions run, usage is logged this often at most, ms.
pub const USAGE_EACH_MS: u64 = 60_000;

/// After a link's first good probe it is held down so long, ms.
pub const HOLD_MS: u64 = 60_000;
/// Each flap doubles the hold-down up to this, ms.
pub const HOLD_MAX_MS: u64 = 3_600_000;
/// After so long without a flap a link's troubles are forgotten, ms.
pub const FLAPS_KEPT_MS: u64 = 86_400_000;

/// The first pause before a retry, ms; each attempt without progress doubles it.
pub const PAUSE_MS: u64 = 1_000;
/// The longest pause before a retry, ms.
pub const PAUSE_MAX_MS: u64 = 300_000;
/// Attempts without progress when networks, hosts or storages fail.
pub const ATTEMPTS_MAX: u32 = 20;
/// Attempts without progress at files that change while they are read, or arrive corrupt.
pub const ATTEMPTS_FILE_MAX: u32 = 3;
/// Attempts without progress in a row, whatever the causes in turn.
pub const ATTEMPTS_ALL_MAX: u32 = 200;
/// The first pause when there is no room, ms.
pub const ROOM_PAUSE_MS: u64 = 60_000;
/// The longest pause when there is no room, ms.
pub const ROOM_PAUSE_MAX_MS: u64 = 1_800_000;
/// How long room is waited for, ms.
pub const ROOM_WAIT_MAX_MS: u64 = 86_400_000;
/// Bytes that must have come in place beyond what was, for an attempt that finished no file to count as progress.
pub const PROGRESS_LEAST_BYTES: u64 = 64 << 20;
/// For how long a host is left aside first when sessions fail for its own cause, ms; doubles each time.
pub const ASIDE_MS: u64 = 5_000;
/// For how long a host is left aside at most, ms.
pub const ASIDE_MAX_MS: u64 = 600_000;
/// Sessions of an agent that is away so long are ended at their other end, ms: a lease's length.
pub const AWAY_GRACE_MS: u64 = 30_000;
/// A session of which nobody has heard so long is lost, ms; its driver is there.
pub const SILENT_MS: u64 = 120_000;
/// A session that was asked to stop and has not ended after so long is lost, ms; its driver is there.
pub const STOP_GRACE_MS: u64 = 60_000;

/// A session that runs so long may be stopped for work that has a better claim to its place, ms: one that is stopped at once did nothing.
pub const GIVES_WAY_AFTER_MS: u64 = 10_000;
/// Sessions that are stopped for others in one call of [`crate::due`].
pub const GIVES_WAY_MAX: usize = 16;

/// Sessions of a leg at once.
pub const LEG_SESSIONS_MAX: usize = 64;
/// Legs of one class between the same endpoints that move at once. Fewer at once finish sooner in the mean than all together.
pub const LEGS_AT_ONCE: usize = 8;
/// Listings that run at a host at once.
pub const HOST_LISTINGS_MAX: usize = 4;
/// Bytes of a session at most, but for a file that is larger: hosts and urgent work get their turn after it.
pub const SESSION_BYTES_MAX: u64 = 2_000_000_000_000;
/// Bytes of a session at least, if there are so many: to begin one costs some round trips.
pub const SESSION_BYTES_LEAST: u64 = 64_000_000;
/// Files of a session at least when sizes are not known, if there are so many for each: to begin one costs some round trips.
pub const SESSION_FILES_LEAST: u64 = 32;
/// Files of a session when sizes are not known.
pub const SESSION_FILES_UNSIZED: u32 = 1_000;
/// Sessions that [`crate::due`] starts, and listings that it asks for, in one call.
pub const STARTS_MAX: usize = 512;
/// Actions of other kinds that [`crate::due`] gives in one call, for each kind.
pub const ACTIONS_MAX: usize = 4_096;

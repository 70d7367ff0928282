//! CPU time, memory, affinity, NUMA nodes, and the limits of this process.

mod limit;
#[cfg(test)]
mod made_up;
mod near;
mod node;
mod place;
mod urgent;
mod usage;

pub use limit::{Limit, memlock_limit, nofile_limit, raise_nofile};
pub use near::{Anywhere, Near, near};
pub use node::{SYS, node_cpus, node_of_block_device, node_of_interface, nodes};
pub use place::{IoPriority, allowed_cpus, online_cpus, set_affinity, set_io_priority, set_thread_name};
pub use urgent::{set_exact_sleep, set_real_time};
pub use usage::{CpuTime, HostTime, Memory, host_time, memory, peak_rss_bytes, process_time, rss_bytes, thread_time};

//! TCP sockets, and local ones that hand them over: connecting, sending, receiving, pacing, congestion control, and what the kernel
//! measures.
//!
//! Sockets made here are nonblocking and closed on exec. Everything takes any
//! [`AsFd`](std::os::fd::AsFd), so sockets made elsewhere work too. Data functions return
//! [`WouldBlock`](std::io::ErrorKind::WouldBlock) when there is nothing to do now, and never raise
//! SIGPIPE.

mod congestion;
mod connect;
mod handing;
mod interface;
mod label;
mod options;
pub(crate) mod raw;
mod size;
mod tcp_info;
mod transfer;

#[cfg(test)]
mod tests;

pub use congestion::{
    RATE_UNLIMITED, allowed_congestion, available_congestion, congestion, max_pacing_rate, set_congestion,
    set_max_pacing_rate,
};
pub use connect::{
    accept, connect, finish_connect, listen, local_addr, open, open_icmp, peer_addr, shutdown, source_of,
    start_connect, take_error,
};
pub use handing::{connect_local, inherited_listener, listen_local, recv_message, send_message};
pub use interface::{interface_of, interfaces};
pub use label::set_flow_label;
pub use options::{
    Keepalive, bind_to_device, dscp, keepalive, mss, nodelay, notsent_lowat, rcvlowat, set_dscp, set_keepalive,
    set_mss, set_nodelay, set_notsent_lowat, set_quickack, set_rcvlowat, set_reset_on_close, set_reuseaddr,
    set_reuseport, set_rto_max, set_user_timeout, set_v6only, user_timeout,
};
pub use size::{receive_buffer, send_buffer, set_receive_buffer, set_send_buffer, widen_receive_window};
pub use std::net::Shutdown;
pub use tcp_info::{TcpInfo, TcpState, tcp_info};
pub use transfer::{inq, outq, peek, recv, recvv, send, sendv};

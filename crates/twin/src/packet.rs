//! What is done to the bytes of a packet: its shape is read, segments are cut out of it, marked, corrupted.

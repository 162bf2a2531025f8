package serve

import "golang.org/x/sys/unix"

// ended says whether the other side of a TCP connection has closed it, as far as the kernel knows.
func ended(fd int) bool {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return false // it is another kind of connection
	}
	switch info.State { // the names are those of BPF, the numbers the kernel's
	case unix.BPF_TCP_CLOSE, unix.BPF_TCP_CLOSE_WAIT, unix.BPF_TCP_LAST_ACK:
		return true
	}
	return false
}

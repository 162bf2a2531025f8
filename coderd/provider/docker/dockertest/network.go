package dockertest

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/netip"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"
)

// Network makes a bridge network of its own subnet, and returns its name and the address by which its containers reach
// this machine. It goes with the engine.
func (e *Engine) Network(t testing.TB) (name string, gateway netip.Addr) {
	t.Helper()
	var err error
	for range 20 { // until a subnet is free
		if name, gateway, err = e.AddNetwork(t.Context()); err == nil {
			return name, gateway
		}
	}
	t.Fatal(err)
	return "", gateway
}

// AddNetwork is Network, once.
func (e *Engine) AddNetwork(ctx context.Context) (string, netip.Addr, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.networks++
	n := e.networks
	gateway := netip.AddrFrom4([4]byte{10, e.second, e.third + byte(n), 1}) // wraps around
	name := fmt.Sprintf("net-%d", n)
	bridge := fmt.Sprintf("%s%d", bridgePrefix(filepath.Base(e.Dir)), n)
	_, err := e.Client.NetworkCreate(ctx, name, client.NetworkCreateOptions{
		Driver: "bridge",
		IPAM: &network.IPAM{Config: []network.IPAMConfig{{
			Subnet: netip.PrefixFrom(gateway, 24).Masked(), Gateway: gateway,
		}}},
		Options: map[string]string{"com.docker.network.bridge.name": bridge},
	})
	if err != nil {
		return "", gateway, fmt.Errorf("make network %s: %w", gateway, err)
	}
	e.bridges = append(e.bridges, bridge)
	return name, gateway, nil
}

// bridgePrefix begins the names of the interfaces of one engine, in the 15 characters that there are.
func bridgePrefix(folder string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(folder))
	return fmt.Sprintf("pw%08x", h.Sum32())
}

// removeBridge takes an interface down and away: it outlives the daemon that made it.
func removeBridge(name string) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(socket) }()
	down, err := unix.NewIfreq(name)
	if err != nil {
		return
	}
	down.SetUint16(0)
	_ = unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, down)
	raw := append([]byte(name), 0)
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCBRDELBR, uintptr(unsafe.Pointer(&raw[0])))
}

package ports

import (
	"bufio"
	"cmp"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// reached are the local addresses that dial reaches, as /proc/net writes them on little-endian machines, which all that agents
// are built for are: any and loopback of IPv4, of IPv6, and of IPv4 within IPv6.
var reached = map[string]struct{}{
	"00000000": {}, "0100007F": {},
	"00000000000000000000000000000000": {}, "00000000000000000000000001000000": {},
	"0000000000000000FFFF000000000000": {}, "0000000000000000FFFF00000100007F": {},
}

// listening is the state of a socket that listens.
const listening = "0A"

// list is what listens where dial reaches it, by port. Of a process that the agent may not look at there is no name.
func list(proc string) ([]sdk.Port, error) {
	sockets := map[string]int{} // by inode
	for _, name := range []string{"tcp", "tcp6"} {
		table, err := os.Open(filepath.Join(proc, "net", name))
		if os.IsNotExist(err) {
			continue // no IPv6
		}
		if err != nil {
			return nil, xerrors.Errorf("read listening ports: %w", err)
		}
		err = parse(table, sockets)
		_ = table.Close()
		if err != nil {
			return nil, err
		}
	}
	ports := map[int]sdk.Port{}
	for _, port := range sockets {
		ports[port] = sdk.Port{Port: port}
	}
	name(proc, sockets, ports)
	all := slices.AppendSeq([]sdk.Port{}, maps.Values(ports))
	slices.SortFunc(all, func(a, b sdk.Port) int { return cmp.Compare(a.Port, b.Port) })
	return all, nil
}

// parse adds the ports that listen to a map by the inodes of their sockets.
func parse(table io.Reader, into map[string]int) error {
	const local, state, inode = 1, 3, 9
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) <= inode || fields[state] != listening {
			continue
		}
		address, hex, _ := strings.Cut(fields[local], ":")
		port, err := strconv.ParseUint(hex, 16, 16)
		if _, ok := reached[address]; ok && err == nil {
			into[fields[inode]] = int(port)
		}
	}
	if err := lines.Err(); err != nil {
		return xerrors.Errorf("read listening ports: %w", err)
	}
	return nil
}

// name finds the processes that have the sockets. Of several, the one with the lowest number is named: the others are its children.
func name(proc string, sockets map[string]int, ports map[int]sdk.Port) {
	processes, _ := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	for _, dir := range processes {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		files, _ := os.ReadDir(filepath.Join(dir, "fd")) // not of others' processes
		for _, file := range files {
			target, _ := os.Readlink(filepath.Join(dir, "fd", file.Name()))
			inode := strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")
			port, ok := sockets[inode]
			if before := ports[port].PID; !ok || before != 0 && before < pid {
				continue
			}
			comm, _ := os.ReadFile(filepath.Join(dir, "comm"))
			ports[port] = sdk.Port{Port: port, PID: pid, Process: strings.ToValidUTF8(strings.TrimSpace(string(comm)), "")}
		}
	}
}

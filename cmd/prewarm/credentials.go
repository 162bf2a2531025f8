package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// client is for the server and the token that the flags, the environment and the saved logins name.
func (a *app) client() (*sdk.Client, error) {
	c, err := sdk.New(a.server(), "")
	if err != nil {
		return nil, usageErrorf("%v", err)
	}
	c.Organization = a.organization
	c.UserAgent = "prewarm/" + version()
	c.Clock = a.clock
	c.Token, err = a.token(c.URL)
	return c, err
}

// token looks in the order that the help of the root command tells. That there is none is for the server to judge.
func (a *app) token(server *url.URL) (string, error) {
	if token := strings.TrimSpace(a.env("PREWARM_TOKEN")); token != "" {
		return token, nil
	}
	if a.tokenFile != "" {
		return readToken(a.tokenFile)
	}
	saved, err := a.readCredentials()
	if err != nil {
		return "", err
	}
	if login, ok := saved.Servers[server.String()]; ok {
		return login.Token, nil
	}
	if !loopback(server.Hostname()) {
		return "", nil
	}
	for _, dir := range a.dataDirs() {
		if token, err := readToken(filepath.Join(dir, "owner-token")); err == nil {
			return token, nil
		}
	}
	return "", nil
}

// defaultURL is where a server listens unless --listen says otherwise.
const defaultURL = "http://127.0.0.1:7080"

// server is the address of the server, with a scheme: the one that was named, else where commands go without a name.
func (a *app) server() string {
	if a.url == "" {
		a.url = a.unnamedServer()
	}
	a.url = withScheme(a.url)
	return a.url
}

// unnamedServer is the address of a server on this machine, which leaves it in its data directory, else that of the last
// login, else the default.
func (a *app) unnamedServer() string {
	for _, dir := range a.dataDirs() {
		if address := leftAddress(filepath.Join(dir, "server-url")); address != "" {
			return address
		}
	}
	if saved, err := a.readCredentials(); err == nil && saved.Last != "" { // token reports the error
		return saved.Last
	}
	return defaultURL
}

// leftAddress is the address that a server left in its data directory; empty where there is none that can be trusted. The
// token goes to it, and a data directory may be a folder that somebody else has written or packed: so it must be this user's
// file, and name this machine.
func leftAddress(file string) string {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() {
		return ""
	}
	address, err := readTrimmed("address of server", file)
	if err != nil {
		return ""
	}
	u, err := url.Parse(address)
	if err != nil || u.User != nil || !loopback(u.Hostname()) {
		return ""
	}
	return address
}

// withScheme adds the scheme to an address that was written without one: https, and on this machine http.
func withScheme(address string) string {
	if strings.Contains(address, "://") {
		return address
	}
	if u, err := url.Parse("http://" + address); err == nil && loopback(u.Hostname()) {
		return "http://" + address
	}
	return "https://" + address
}

// dataDirs are where a server of this user may keep its data, the one that was named first.
func (a *app) dataDirs() []string {
	if dir := a.env("PREWARM_DATA_DIR"); dir != "" {
		return []string{dir, ".prewarm"}
	}
	return []string{".prewarm", a.defaultDataDir()}
}

func readToken(path string) (string, error) {
	token, err := readTrimmed("token", path)
	if err != nil {
		return "", err
	}
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", xerrors.Errorf("read token: %s does not hold one token", path)
	}
	return token, nil
}

// dataDir is where a server of this user keeps its data unless told otherwise.
func (a *app) dataDir() string {
	if dir := a.env("PREWARM_DATA_DIR"); dir != "" {
		return dir
	}
	return a.defaultDataDir()
}

func (a *app) defaultDataDir() string {
	if dir := a.env("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "prewarm")
	}
	return filepath.Join(a.env("HOME"), ".local", "share", "prewarm")
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// credentials is the file of saved logins, by the address of the server.
type credentials struct {
	Servers map[string]login `json:"servers"`
	Last    string           `json:"last,omitempty"` // address of the last login
}

type login struct {
	Token string `json:"token"`
	User  string `json:"user"`
}

func (a *app) credentialsPath() string {
	if dir := a.env("XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "prewarm", "credentials.json")
	}
	return filepath.Join(a.env("HOME"), ".config", "prewarm", "credentials.json")
}

func (a *app) readCredentials() (credentials, error) {
	saved := credentials{Servers: map[string]login{}}
	content, err := os.ReadFile(a.credentialsPath())
	if errors.Is(err, fs.ErrNotExist) {
		return saved, nil
	}
	if err != nil {
		return saved, xerrors.Errorf("read saved logins: %w", err)
	}
	if err := json.Unmarshal(content, &saved); err != nil {
		return saved, xerrors.Errorf("read saved logins: %s (mend or remove it): %w", a.credentialsPath(), err)
	}
	if saved.Servers == nil {
		saved.Servers = map[string]login{}
	}
	return saved, nil
}

// writeCredentials replaces the file at once, so that nobody reads half of it, and for its user's eyes only.
func (a *app) writeCredentials(saved credentials) error {
	path := a.credentialsPath()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return xerrors.Errorf("save login: %w", err)
	}
	content, err := json.MarshalIndent(saved, "", "  ")
	if err != nil {
		return xerrors.Errorf("encode login: %w", err)
	}
	if err := replaceFile(path, append(content, '\n'), 0o600); err != nil {
		return xerrors.Errorf("save login: %w", err)
	}
	return nil
}

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tokenServer answers whoami and login only to tokens that begin with pw_, and remembers them.
func tokenServer(t *testing.T) (server *fakeServer, tokens *[]string) {
	t.Helper()
	tokens = &[]string{}
	server = newFakeServer(t, answers(t))
	check := answer{handle: func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		*tokens = append(*tokens, token)
		if !strings.HasPrefix(token, "pw_") {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"detail":"no valid token"}`))
			return
		}
		_, _ = w.Write([]byte(mustJSON(t, testIdentity)))
	}}
	server.answer("GET /whoami", check)
	server.answer("POST /login", check)
	return server, tokens
}

// The places of a token, each tried when those before it have none.
func TestTokenLookup(t *testing.T) {
	server, tokens := tokenServer(t)
	cwd := t.TempDir()
	t.Chdir(cwd)
	sh := newShell(t, server.URL)
	home := t.TempDir()
	sh.env = []string{"PREWARM_URL=" + server.URL, "HOME=" + home}
	used := func(args ...string) string {
		t.Helper()
		*tokens = nil
		sh.run(append([]string{"whoami"}, args...)...)
		return strings.Join(*tokens, " ")
	}
	ownerToken := func(dir, token string) {
		t.Helper()
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "owner-token"), []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	if got := used(); got != "" {
		t.Errorf("with no token anywhere, sent %q", got)
	}
	ownerToken(filepath.Join(home, ".local", "share", "prewarm"), "pw_home")
	if got := used(); got != "pw_home" {
		t.Errorf("with a default data directory, sent %q", got)
	}
	data := t.TempDir()
	ownerToken(data, "pw_data")
	sh.env = append(sh.env, "PREWARM_DATA_DIR="+data)
	if got := used(); got != "pw_data" {
		t.Errorf("with PREWARM_DATA_DIR, sent %q", got)
	}
	ownerToken(filepath.Join(cwd, ".prewarm"), "pw_here")
	if got := used(); got != "pw_data" {
		t.Errorf("with .prewarm, PREWARM_DATA_DIR goes first, sent %q", got)
	}
	named := sh.env
	sh.env = named[:2]
	if got := used(); got != "pw_here" {
		t.Errorf("with .prewarm, sent %q", got)
	}
	sh.env = named
	sh.stdin = strings.NewReader("pw_saved\n")
	if got := sh.run("login"); got.status != 0 {
		t.Fatal(got)
	}
	if got := used(); got != "pw_saved" {
		t.Errorf("with a saved login, sent %q", got)
	}
	sh.env = append(sh.env, "PREWARM_TOKEN_FILE="+writeFile(t, "pw_file_of_env"))
	if got := used(); got != "pw_file_of_env" {
		t.Errorf("with PREWARM_TOKEN_FILE, sent %q", got)
	}
	if got := used("--token-file", writeFile(t, "pw_file\n")); got != "pw_file" {
		t.Errorf("with --token-file, sent %q", got)
	}
	sh.env = append(sh.env, "PREWARM_TOKEN=pw_env")
	if got := used("--token-file", "/nowhere"); got != "pw_env" {
		t.Errorf("with PREWARM_TOKEN, sent %q", got)
	}
}

// The token of this machine's owner never goes to another machine.
func TestOwnerTokenStaysHere(t *testing.T) {
	t.Parallel()
	sh := newShell(t, "")
	home := t.TempDir()
	dir := filepath.Join(home, ".local", "share", "prewarm")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "owner-token"), []byte("pw_owner"), 0o600); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"http://127.0.0.1:7080": "pw_owner", "http://localhost:7080": "pw_owner", "http://[::1]:7080": "pw_owner",
		"http://127.0.0.1.evil.example": "", "http://10.0.0.1:7080": "", "https://prewarm.example.com": "",
	} {
		sh.env = []string{"HOME=" + home}
		a := sh.app(nil, nil)
		a.url = url
		client, err := a.client()
		if err != nil || client.Token != want {
			t.Errorf("to %s goes %q, %v", url, client.Token, err)
		}
	}
}

func TestLoginAndLogout(t *testing.T) {
	t.Parallel()
	server, _ := tokenServer(t)
	other, _ := tokenServer(t)
	sh := newShell(t, server.URL)
	home := t.TempDir()
	sh.env = []string{"PREWARM_URL=" + server.URL, "HOME=" + home}
	file := filepath.Join(home, ".config", "prewarm", "credentials.json")

	sh.stdin = strings.NewReader("wrong\n")
	if got := sh.run("login"); got.status != 1 || !strings.Contains(got.stderr, "no valid token") {
		t.Errorf("with a wrong token: %s", got)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("a wrong token was saved: %v", err)
	}
	sh.stdin = strings.NewReader("two words\n")
	if got := sh.run("login"); got.status != 2 {
		t.Errorf("with no token: %s", got)
	}
	for _, url := range []string{server.URL, other.URL + "/"} {
		sh.stdin = strings.NewReader("  pw_good \n")
		if got := sh.run("login", "--url", url); got.status != 0 {
			t.Fatalf("login: %s", got)
		}
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("saved with %v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".credentials-*")); len(left) > 0 {
		t.Errorf("left behind %v", left)
	}
	if got := sh.run("logout"); got.status != 0 || !strings.HasPrefix(got.stdout, "Logged out of "+server.URL) {
		t.Errorf("logout: %s", got)
	}
	if got := sh.run("whoami", "--url", other.URL); got.status != 0 {
		t.Errorf("the other login is gone too: %s", got)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := sh.run("whoami"); got.status != 1 || !strings.Contains(got.stderr, "mend or remove it") {
		t.Errorf("with a broken file: %s", got)
	}
}

func TestTokenFileThatIsNone(t *testing.T) {
	t.Parallel()
	server, tokens := tokenServer(t)
	sh := newShell(t, server.URL)
	sh.env = []string{"HOME=" + t.TempDir()}
	for _, path := range []string{"/nowhere", writeFile(t, ""), writeFile(t, "a b"), t.TempDir()} {
		if got := sh.run("whoami", "--url", server.URL, "--token-file", path); got.status != 1 || len(*tokens) > 0 {
			t.Errorf("%s: %s, sent %v", path, got, *tokens)
		}
	}
}

// After a login, commands go to its server without being given the address, as a new member expects; a server on this
// machine goes first, and login says so.
func TestLoginNamesTheServer(t *testing.T) {
	t.Parallel()
	server, _ := tokenServer(t)
	sh := newShell(t, "")
	home, local := t.TempDir(), t.TempDir()
	sh.env = []string{"HOME=" + home}
	sh.stdin = strings.NewReader("pw_good\n")
	got := sh.run("login", strings.TrimPrefix(server.URL, "http://"))
	if got.status != 0 || strings.Contains(got.stderr, "--url") {
		t.Fatal(got)
	}
	if got := sh.run("whoami"); got.status != 0 || !strings.Contains(got.stdout, server.URL) {
		t.Errorf("after the login: %s", got)
	}
	if got := sh.run("login", "one", "two"); got.status != 2 {
		t.Errorf("with two addresses: %s", got)
	}
	if err := os.WriteFile(filepath.Join(local, "server-url"), []byte("http://127.0.0.1:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sh.env = append(sh.env, "PREWARM_DATA_DIR="+local)
	sh.stdin = strings.NewReader("pw_good\n")
	if got := sh.run("login", server.URL); !strings.Contains(got.stderr, "go to http://127.0.0.1:1. For this server: export PREWARM_URL="+server.URL) {
		t.Errorf("beside a server of this machine: %s", got)
	}
	sh.env = sh.env[:1]
	if got := sh.run("logout"); got.status != 0 {
		t.Error(got)
	}
	if got := sh.app(nil, nil).server(); got != defaultURL {
		t.Errorf("after the logout, commands go to %s", got)
	}
}

package seal

import (
	"bytes"
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coder/quartz"
	"golang.org/x/xerrors"
)

const (
	keySize = 32 // bytes: AES-256
	// fresh is how long the file is not looked at again.
	fresh = time.Second
)

// keyName is what a key may be called: it is stored beside what it seals, and shown.
var keyName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// errAltered: another key's, another secret's, or changed.
var errAltered = errors.New("it was sealed with another key of that name, for something else, or was altered")

// NoKey: what is sealed cannot be opened by this replica. The text says what to do, and is for people.
type NoKey struct{ KeyID, Path string }

func (e *NoKey) Error() string {
	return fmt.Sprintf("encryption key %q is not in %s of this replica: every replica needs the same file", e.KeyID, e.Path)
}

// Keys are those of a file. It is safe for concurrent use.
type Keys struct {
	path  string
	make  bool // the file, where it is missing
	clock quartz.Clock

	mu     sync.Mutex // held while reading
	looked time.Time
	stamp  string // of the file as it was read
	first  string
	ring   map[string]cipher.AEAD
	err    error
}

// Open returns the keys of the file at path, which is read when one is needed. With create it is made, with one key, when
// something is first to be sealed and there is no such file.
func Open(path string, create bool, clock quartz.Clock) *Keys {
	return &Keys{path: path, make: create, clock: clock}
}

// Path is the file's.
func (k *Keys) Path() string { return k.path }

// Exposed says whether users other than the file's can read it. A file of another user may be readable for its group, since the
// server reads it as one of that: a pod has its secrets so.
func (k *Keys) Exposed() bool {
	info, err := os.Stat(k.path)
	if err != nil {
		return false
	}
	others := fs.FileMode(0o077)
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Geteuid() {
		others = 0o037
	}
	return info.Mode().Perm()&others != 0
}

// Current is the id of the key that seals. It looks at the file now: who asks may just have changed it, and goes by the
// answer when it takes the old key out.
func (k *Keys) Current() (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.looked = time.Time{}
	if err := k.read(true); err != nil {
		return "", err
	}
	return k.first, nil
}

// Seal encrypts plain, for what about names: Open wants the same words.
func (k *Keys) Seal(plain []byte, about string) (sealed []byte, keyID string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.read(true); err != nil {
		return nil, "", err
	}
	aead := k.ring[k.first]
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(plain)+aead.Overhead())
	if _, err := rand.Read(nonce); err != nil {
		return nil, "", xerrors.Errorf("make nonce: %w", err)
	}
	return aead.Seal(nonce, nonce, plain, []byte(about)), k.first, nil
}

// Open decrypts what Seal made. *NoKey: the file of this replica lacks that key.
func (k *Keys) Open(sealed []byte, keyID, about string) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.read(false); err != nil {
		return nil, err
	}
	aead, has := k.ring[keyID]
	if !has {
		return nil, &NoKey{KeyID: keyID, Path: k.path}
	}
	if len(sealed) < aead.NonceSize() {
		return nil, xerrors.Errorf("open secret: %w", errAltered)
	}
	plain, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], []byte(about))
	if err != nil { // it says nothing that could help
		return nil, xerrors.Errorf("open secret: %w", errAltered)
	}
	return plain, nil
}

// read reads the file if it may have changed. A file that is wrong is an error for as long as it is; a missing one is an
// empty one, unless something is to be sealed. Called with the lock.
func (k *Keys) read(sealing bool) error {
	now := k.clock.Now("seal", "read")
	if k.ring != nil && k.err == nil && now.Sub(k.looked) < fresh && (len(k.ring) > 0 || !sealing) {
		return nil
	}
	k.looked = now
	info, err := os.Stat(k.path)
	if errors.Is(err, fs.ErrNotExist) {
		k.ring, k.first, k.stamp, k.err = map[string]cipher.AEAD{}, "", "", nil
		if !sealing {
			return nil
		}
		if !k.make {
			return xerrors.Errorf("read encryption keys: %w", err)
		}
		if err := create(k.path); err != nil {
			return err
		}
		info, err = os.Stat(k.path)
	}
	if err != nil {
		return xerrors.Errorf("read encryption keys: %w", err)
	}
	if stamp := fmt.Sprint(info.ModTime().UnixNano(), info.Size()); stamp != k.stamp || k.err != nil {
		k.stamp = stamp
		k.first, k.ring, k.err = load(k.path)
	}
	return k.err
}

// create writes a file with one key. Of several that do it at once, one wins.
func create(path string) error {
	key := make([]byte, keySize)
	if _, err := rand.Read(key); err != nil {
		return xerrors.Errorf("make encryption key: %w", err)
	}
	line := "k" + strings.ToLower(rand.Text()[:8]) + ":" + base64.StdEncoding.EncodeToString(key) + "\n"
	file, err := os.CreateTemp(filepath.Dir(path), ".encryption.keys-*") // 0600
	if err != nil {
		return xerrors.Errorf("make encryption keys: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.WriteString(line)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Link(file.Name(), path)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return xerrors.Errorf("make encryption keys: %w", err)
	}
	return nil
}

// load reads the keys. No error repeats a line: there is a key in it.
func load(path string) (first string, ring map[string]cipher.AEAD, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", nil, xerrors.Errorf("read encryption keys: %w", err)
	}
	ring = map[string]cipher.AEAD{}
	for i, line := range bytes.Split(content, []byte("\n")) {
		text := strings.TrimSpace(string(line))
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		id, encoded, _ := strings.Cut(text, ":")
		key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
		switch {
		case !keyName.MatchString(id):
			return "", nil, xerrors.Errorf("read encryption keys: %s:%d: write ID:KEY, the id of letters and digits", path, i+1)
		case err != nil || len(key) != keySize:
			return "", nil, xerrors.Errorf("read encryption keys: %s:%d: key %s is not 32 bytes in base64", path, i+1, id)
		case ring[id] != nil:
			return "", nil, xerrors.Errorf("read encryption keys: %s:%d: key %s is there twice", path, i+1, id)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return "", nil, xerrors.Errorf("use encryption key %s: %w", id, err)
		}
		if ring[id], err = cipher.NewGCM(block); err != nil {
			return "", nil, xerrors.Errorf("use encryption key %s: %w", id, err)
		}
		first = cmp.Or(first, id)
	}
	if first == "" {
		return "", nil, xerrors.Errorf("read encryption keys: %s holds none: write ID:KEY, such as k1:$(openssl rand -base64 32)", path)
	}
	return first, ring, nil
}

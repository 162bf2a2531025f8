package templates

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/google/uuid"
	"golang.org/x/xerrors"
)

// versionHash identifies a version by its content: SHA-256 of provider, spec and agent as canonical JSON. A version
// without an agent has the hash that it had before there were agents.
func versionHash(provider string, spec, agent json.RawMessage) (string, error) {
	content, err := json.Marshal(struct {
		Provider string          `json:"provider"`
		Spec     json.RawMessage `json:"spec"`
		Agent    json.RawMessage `json:"agent,omitempty"`
	}{provider, spec, agent})
	if err != nil {
		return "", xerrors.Errorf("encode version: %w", err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), nil
}

// PoolKeyOf is all that makes two prebuilds interchangeable. Generation is raised to replace all prebuilds of a preset
// though nothing else changed (C15).
type PoolKeyOf struct {
	Organization uuid.UUID         `json:"organization"`
	Template     uuid.UUID         `json:"template"`
	Version      string            `json:"version"` // hash
	Preset       string            `json:"preset"`
	Parameters   map[string]string `json:"parameters"`
	Generation   int32             `json:"generation"`
	// Runner is left out of the key of a preset that is not one of runners, which is what it was before there were any.
	Runner *RunnerOf `json:"runner,omitempty"`
}

// RunnerOf is how prebuilds register at a forge. One that is registered otherwise is another thing.
type RunnerOf struct {
	Entity uuid.UUID `json:"entity"`
	Labels []string  `json:"labels"` // as forge.Labels makes them
	Group  string    `json:"group,omitempty"`
}

// PoolKey is the first half of the SHA-256 of its canonical JSON. It is compared and never looked into.
func PoolKey(of PoolKeyOf) (uuid.UUID, error) {
	if of.Parameters == nil {
		of.Parameters = map[string]string{}
	}
	content, err := json.Marshal(of) // sorts the parameters
	if err != nil {
		return uuid.Nil, xerrors.Errorf("encode pool key: %w", err)
	}
	sum := sha256.Sum256(content)
	return uuid.UUID(sum[:16]), nil
}

package instance

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"

	"golang.org/x/xerrors"
)

// Derive makes a secret for a purpose of each signing key that is not retired, the newest first. All replicas make the same
// ones, and nobody does without the database and the encryption keys that its signing keys are sealed with.
func (s *Service) Derive(ctx context.Context, purpose string) ([][]byte, error) {
	if _, err := s.keys.newest(ctx); err != nil {
		return nil, err
	}
	keys, err := s.keys.take(ctx)
	if err != nil {
		return nil, err
	}
	known := keys.known
	s.keys.turn <- keys
	secrets := make([][]byte, 0, len(known))
	for _, key := range known {
		if key.err != nil {
			continue // signing with it reports the error
		}
		secret, err := hkdf.Key(sha256.New, key.secret, nil, purpose, keyBytes)
		if err != nil {
			return nil, xerrors.Errorf("derive key: %w", err)
		}
		secrets = append(secrets, secret)
	}
	return secrets, nil
}

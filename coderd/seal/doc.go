// Package seal keeps secrets at rest: sealed with a key that is not in the database, by AES-256-GCM, and bound to what they
// are the secret of, so that one cannot be put in another's place.
//
// The keys are in a file, one a line as id:base64 of 32 bytes. The first seals, all open. The file is read again when it
// changes, so that a key is rotated without a restart: put the new key at the end of every replica's file, then first in
// every one, reseal, and take the old one out.
package seal

package workspaces

import "github.com/google/uuid"

// NewID makes the id of a workspace, a claim or a job. It begins with the time (UUID version 7), so that what is made
// together lies together in the indexes on it: with ids that are random from the first bit on, each insert would touch
// another page of each index, and write it to the log in full after every checkpoint.
func NewID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

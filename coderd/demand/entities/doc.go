// Package entities keeps credentials and entities of forges, their secrets sealed, and makes a client for each entity.
//
// A change is one transaction with its entry of the audit log, in which no secret is. Every replica reads the rows again
// when what it has is a second old, and makes a client anew when the credential's row has changed: so a change applies
// everywhere without a restart (P1). A secret that a replica lacks the key of is an error of that entity only.
package entities

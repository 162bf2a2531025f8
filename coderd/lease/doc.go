// Package lease is how a replica does leased work: rows that are due, of which any replica may take one for a time. Rows
// are taken and ended by statements of the room that owns them; what all rooms need around that is here.
//
//	Held     ends what is done under a lease before the lease ends, and extends leases while they are needed
//	Loop     looks for what is due, at its pace or when it is woken
//	Apart    does work of several names side by side, each once at a time
//	Backoff  is when what failed is due again
package lease

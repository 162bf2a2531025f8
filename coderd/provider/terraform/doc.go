// Package terraform is the provider of workspaces that are modules of OpenTofu or Terraform. A create is an apply, a delete a destroy;
// all else is read of the states that the server keeps, and runs nothing.
//
// # What a run may
//
// A module is code of its author: data sources and provisioners run any command. So a run never has what the server has.
// It has a directory, a home and a user id of its own, and an environment of a few variables. As root it has a PID
// namespace too, in which all that it started ends with it. Where the server is not root, the run is the server's user,
// and reads whatever that reads: the owner has to allow that (Options.AllowServerIdentity).
//
// A run has the token of its state's backend, which is good for this run only. It may reach the network, and what every
// user of the machine reaches. Processors, memory and disk have no limits.
package terraform

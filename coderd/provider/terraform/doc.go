// Package terraform is the provider of workspaces that are modules of OpenTofu or Terraform. A create is an apply, a delete a destroy;
// all else is read of the states that the server keeps, and runs nothing.
//
// # Applies
//
// A create plans into a file and applies that. The addresses that it creates are with the states before it begins, until a state names
// them or the apply has come to its end by itself. What is left is of an apply that was cut off: the resources may exist, and no state
// names them. Such a workspace is listed in error, not created again, and deleted by a person only (Stored.Unsure, doubt), unless its
// spec says that creating again makes no second resource.
//
// # Templates of Coder
//
// Where the files of a module name what the provider `coder` makes, its runs have the environment that this reads: workspace, owner,
// parameters, and the token and the start script of the agent. The environment is kept with the module, sealed, so that each run of an
// attempt has the same to the byte and an apply that is repeated replaces nothing. A retry has another token, and begins with a delete.
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

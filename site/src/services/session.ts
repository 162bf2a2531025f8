import { roles, type Identity, type Operations } from "../generated/api";
import { useRead } from "./query";

/** may says whether a role has any part in an operation. It only decides what is shown: the server says what is allowed. */
export function may(role: Identity["role"] | undefined, operation: keyof Operations): boolean {
  return role !== undefined && roles[operation].includes(role);
}

/** useMay is may for who is signed in. */
export function useMay(): (operation: keyof Operations) => boolean {
  const role = useRead("whoami").data?.role;
  return (operation) => may(role, operation);
}

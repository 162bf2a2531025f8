import { operations, type Operations } from "../generated/api";
import { connection, gatewayOnly } from "./connection";

/** A read that takes longer than this has failed, in milliseconds: a frozen server never answers. */
const readPatience = 30_000;

/** Problem is what the server answers where it does not do what was asked (RFC 9457), or that it did not answer. */
export class Problem extends Error {
  /** status is that of HTTP; 0 where there was no answer. */
  readonly status: number;
  /** errors are the several things that are wrong, of a file each with its place as file:line:column. */
  readonly errors: readonly { location?: string; message?: string }[];
  constructor(status: number, message: string, errors: Problem["errors"] = []) {
    super(message);
    this.name = "Problem";
    this.status = status;
    this.errors = errors;
  }
}

type Parameters<K extends keyof Operations> = Operations[K]["path"] & Operations[K]["query"];

/** Input of an operation: what goes into its path and query, and its body. */
export type Input<K extends keyof Operations> = ({} extends Parameters<K>
  ? { params?: Parameters<K> }
  : { params: Parameters<K> }) &
  (Operations[K]["body"] extends undefined ? { body?: undefined } : { body: Operations[K]["body"] });

/** Answer of an operation. */
export type Answer<K extends keyof Operations> = Operations[K]["answer"];

type Rest<K extends keyof Operations> = {} extends Input<K> ? [input?: Input<K>] : [input: Input<K>];

type Sent = { params?: Record<string, unknown>; body?: unknown };

/** address is the method and URL of an operation. */
export function address(id: keyof Operations, params: Record<string, unknown> = {}): { method: string; url: string } {
  const [method, path] = operations[id];
  const left = new Map(Object.entries(params));
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = left.get(name);
    left.delete(name);
    return encodeURIComponent(String(value));
  });
  const query = new URLSearchParams();
  for (const [name, value] of left) if (value !== undefined && value !== "") query.set(name, String(value));
  return { method, url: query.size > 0 ? `${filled}?${query}` : filled };
}

/** call does an operation. It throws a Problem. The session is a cookie, which the browser adds. */
export async function call<K extends keyof Operations>(id: K, ...[input]: Rest<K>): Promise<Answer<K>> {
  return send(id, (input ?? {}) as Sent) as Promise<Answer<K>>;
}

/** callUntil is call that is given up when the signal says so. */
export async function callUntil<K extends keyof Operations>(signal: AbortSignal, id: K, input: Input<K>): Promise<Answer<K>> {
  return send(id, input as Sent, {}, signal) as Promise<Answer<K>>;
}

/** signIn turns a token into a session; the page forgets it. */
export function signIn(token: string): Promise<Answer<"create-session">> {
  return send("create-session", {}, { Authorization: `Bearer ${token}` }) as Promise<Answer<"create-session">>;
}

async function send(
  id: keyof Operations,
  input: Sent,
  headers: Record<string, string> = {},
  signal?: AbortSignal,
): Promise<unknown> {
  const { method, url } = address(id, input.params);
  const init: RequestInit = { method, headers };
  if (signal) init.signal = signal;
  else if (method === "GET") init.signal = AbortSignal.timeout(readPatience);
  if (input.body !== undefined) {
    init.body = JSON.stringify(input.body);
    headers["Content-Type"] = "application/json";
  }
  const response = await request(url, init);
  const text = await response.text();
  return text === "" ? undefined : JSON.parse(text);
}

/** request is fetch that throws a Problem where the answer is none of success. */
export async function request(url: string, init?: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(url, init);
  } catch (e) {
    if (init?.signal?.aborted && init.signal.reason?.name !== "TimeoutError") throw e;
    connection.doubt();
    throw new Problem(0, "The server does not answer.");
  }
  if (gatewayOnly(response)) connection.doubt();
  else connection.heard();
  if (response.ok) return response;
  let detail = `The server answered ${response.status} ${response.statusText}.`;
  let errors: Problem["errors"] = [];
  try {
    const problem = (await response.json()) as { detail?: string; title?: string; errors?: Problem["errors"] };
    detail = problem.detail ?? problem.title ?? detail;
    errors = problem.errors ?? errors;
  } catch {
    // Not a problem document: of a proxy, perhaps.
  }
  throw new Problem(response.status, detail, errors);
}

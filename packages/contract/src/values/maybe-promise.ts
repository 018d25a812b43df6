/**
 * A value, or a promise of the value where reading it needs I/O. A tool call makes a dozen reads that a cache can
 * usually answer; awaiting each of them would cost a promise and a microtask per read. The path of a call uses it for
 * that reason (benchmarks http.invoke and mcp.http-call), and each file of that path names the benchmark. Interfaces of
 * plugins use it so that an author may return either.
 */
export type MaybePromise<T> = T | Promise<T>;

/** Applies `map` synchronously where the value is already known, otherwise after the promise resolves. */
export function mapMaybe<T, R>(value: MaybePromise<T>, map: (value: T) => MaybePromise<R>): MaybePromise<R> {
  return value instanceof Promise ? value.then(map) : map(value);
}

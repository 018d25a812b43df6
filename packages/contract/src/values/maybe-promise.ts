/**
 * A value that is usually there at once and a promise only where it has to be fetched. Awaiting what is there costs a
 * promise and a turn; on the way of a call there are a dozen such reads.
 */
export type Soon<T> = T | Promise<T>;

/** What `use` makes of the value, at once where it is there. */
export function whenThere<T, R>(value: Soon<T>, use: (value: T) => Soon<R>): Soon<R> {
  return value instanceof Promise ? value.then(use) : use(value);
}

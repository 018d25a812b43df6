/** What the operator should see. Fields come first; a thrown value goes under `err`, where its stack is kept. */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

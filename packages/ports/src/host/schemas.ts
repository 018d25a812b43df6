export interface SchemaIssue {
  /** JSON pointer into the value. */
  path: string;
  message: string;
}

/** Never throws and always terminates: an evaluation that takes too long is reported as an issue. */
export type SchemaCheck = (value: unknown) => SchemaIssue[] | Promise<SchemaIssue[]>;

/** Compiles JSON Schemas of plugins (2020-12 and draft-07) after checking that they are safe. */
export interface Schemas {
  /** `key` identifies the schema in the cache (package digest and path). Throws `package.schema`. */
  compile(key: string, schema: unknown): Promise<SchemaCheck>;
}

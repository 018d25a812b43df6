export interface SchemaIssue {
  /** JSON pointer into the value. */
  path: string;
  message: string;
}

/** Never throws and never runs away: an over-long evaluation is itself an issue. */
export type SchemaCheck = (value: unknown) => SchemaIssue[] | Promise<SchemaIssue[]>;

/** Plugin-supplied JSON Schemas (2020-12 and draft-07), vetted before they are used. */
export interface Schemas {
  /** `key` names the schema for caching (package digest and path). Throws `package.schema`. */
  compile(key: string, schema: unknown): Promise<SchemaCheck>;
}

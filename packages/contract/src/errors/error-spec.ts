/** The properties of an error code, and constructors for the four families. */
export interface ErrorSpec {
  family: "wire" | "plugin" | "refusal" | "fault";
  http: number;
  retryable: boolean;
  what: string;
  remedy: string;
}

export const wireSpec = (http: number, retryable: boolean, description: string, remedy: string) =>
  ({ family: "wire", http, retryable, what: description, remedy }) as const satisfies ErrorSpec;
export const pluginSpec = (http: number, retryable: boolean, description: string, remedy: string) =>
  ({ family: "plugin", http, retryable, what: description, remedy }) as const satisfies ErrorSpec;
export const refusalSpec = (http: number, description: string, remedy: string, retryable = false) =>
  ({ family: "refusal", http, retryable, what: description, remedy }) as const satisfies ErrorSpec;
export const faultSpec = (http: number, retryable: boolean, description: string, remedy: string) =>
  ({ family: "fault", http, retryable, what: description, remedy }) as const satisfies ErrorSpec;

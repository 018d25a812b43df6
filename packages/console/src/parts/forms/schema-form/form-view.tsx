/** The form of a schema. Loaded when a form is shown for the first time, because the library is large. */
import type { Json, JsonObject } from "@backplane/contract";
import { ActionIcon, Button } from "@mantine/core";
// The main entry also loads a validator that compiles schemas.
import Form from "@rjsf/core/lib/components/Form.js";
import {
  type ArrayFieldItemTemplateProps,
  type ErrorSchema,
  type IconButtonProps,
  type MultiSchemaFieldTemplateProps,
  type RJSFSchema,
  type RJSFValidationError,
  type TemplatesType,
  toErrorSchema,
  type ValidatorType,
} from "@rjsf/utils";
import { useMemo } from "react";
import { Icon, type IconName } from "../../layout/icon.tsx";
import { describeOptions } from "./describe-options.ts";
import { markSecrets } from "./mark-secrets.ts";
import styles from "./schema-form.module.css";
import { SecretWidget } from "./secret-widget.tsx";
import { matchesOption, schemaProblems } from "./validate-schema.ts";

export interface FormViewProps {
  schema: JsonObject;
  value: Json;
  onChange: (value: Json) => void;
  disabled?: boolean;
  /** Whether the name of a field can indicate a secret, as in settings. */
  named_secrets?: boolean;
  /** Prefix of the ids of the fields. */
  id: string;
}

const VALIDATOR: ValidatorType = {
  validateFormData(value, schema) {
    const errors = toErrors(schema as JsonObject, value as Json);
    return { errors, errorSchema: toErrorSchema(errors) as ErrorSchema };
  },
  isValid: (schema, value, root) =>
    matchesOption(schema as JsonObject, (value ?? null) as Json, root as JsonObject),
  rawValidation: (schema, value) => ({ errors: toErrors(schema as JsonObject, value as Json) as never[] }),
};

function toErrors(schema: JsonObject, value: Json): RJSFValidationError[] {
  return schemaProblems(schema, value ?? null).map(({ path, message }) => ({
    property: path.map((part) => `.${part}`).join(""),
    message,
    stack: `${path.join(".")} ${message}`,
  }));
}

/** The form shows exactly the value: it adds no defaults that the person did not choose. */
const NO_DEFAULTS = {
  emptyObjectFields: "skipDefaults",
  arrayMinItems: { populate: "never" },
  allOf: "skipDefaults",
} as const;

export default function FormView(props: FormViewProps) {
  const { schema, value, onChange, disabled = false, named_secrets = false, id } = props;
  const described = useMemo(
    () => describeOptions(markSecrets(schema, named_secrets)) as RJSFSchema,
    [schema, named_secrets],
  );
  return (
    <Form
      className={styles.form ?? ""}
      idPrefix={id}
      schema={described}
      uiSchema={UI}
      formData={value}
      validator={VALIDATOR}
      templates={TEMPLATES}
      widgets={WIDGETS}
      tagName="div"
      disabled={disabled}
      liveValidate="onChange"
      showErrorList={false}
      noHtml5Validate
      experimental_defaultFormStateBehavior={NO_DEFAULTS}
      onChange={({ formData }) => onChange((formData ?? {}) as Json)}
    >
      {/* The caller has the button that saves. */}
      <span />
    </Form>
  );
}

const UI = { "ui:options": { label: true } };
const WIDGETS = { PasswordWidget: SecretWidget };

interface FormIconButtonProps extends IconButtonProps {
  symbol: IconName;
  label: string;
}

function FormIconButton({ symbol, label, onClick, disabled, id }: FormIconButtonProps) {
  return (
    <ActionIcon
      id={id}
      variant="subtle"
      color="gray"
      aria-label={label}
      title={label}
      disabled={disabled}
      onClick={onClick}
    >
      <Icon name={symbol} size={16} />
    </ActionIcon>
  );
}

function AddButton({ onClick, disabled, id }: IconButtonProps) {
  return (
    <Button
      id={id}
      size="compact-sm"
      variant="default"
      leftSection={<Icon name="plus" size={14} />}
      disabled={disabled}
      onClick={onClick}
    >
      Add
    </Button>
  );
}

function ArrayItem({ children, buttonsProps, hasToolbar, registry }: ArrayFieldItemTemplateProps) {
  const Buttons = registry.templates.ArrayFieldItemButtonsTemplate;
  return (
    <div className={styles.item}>
      <div className={styles.itemContent}>{children}</div>
      {hasToolbar && (
        <div className={styles.itemButtons}>
          <Buttons {...buttonsProps} />
        </div>
      )}
    </div>
  );
}

/** The library gives the choice between the options of `oneOf` and `anyOf` no label. */
function OptionChoice({ schema, selector, optionSchemaField }: MultiSchemaFieldTemplateProps) {
  return (
    <div>
      {/* biome-ignore lint/a11y/noLabelWithoutControl: the selector contains the control */}
      <label>
        <span className="visually-hidden">{`Form of ${schema.title ?? "the value"}`}</span>
        {selector}
      </label>
      {optionSchemaField}
    </div>
  );
}

const TEMPLATES: Partial<TemplatesType> = {
  ArrayFieldItemTemplate: ArrayItem,
  MultiSchemaFieldTemplate: OptionChoice,
  ButtonTemplates: {
    AddButton,
    ClearButton: (props) => <FormIconButton {...props} symbol="cross" label="Clear" />,
    CopyButton: (props) => <FormIconButton {...props} symbol="copy" label="Copy" />,
    MoveDownButton: (props) => <FormIconButton {...props} symbol="down" label="Move down" />,
    MoveUpButton: (props) => <FormIconButton {...props} symbol="up" label="Move up" />,
    RemoveButton: (props) => <FormIconButton {...props} symbol="trash" label="Remove" />,
    SubmitButton: () => null,
  },
};

/** Written by tools/web_types.py: messages of the protocol, names of its methods and of the host's. Do not edit. */

export interface AgentAuthCapabilities {
  status?: AuthStatusCapabilities | null;
  logout?: LogoutCapabilities | null;
  _meta?: Record<string, unknown> | null;
}

export interface AgentCapabilities {
  loadSession?: boolean;
  promptCapabilities?: PromptCapabilities;
  mcpCapabilities?: McpCapabilities;
  sessionCapabilities?: SessionCapabilities;
  auth?: AgentAuthCapabilities;
  providers?: ProvidersCapabilities | null;
  _meta?: Record<string, unknown> | null;
}

export interface AgentMessageChunk {
  sessionUpdate: "agent_message_chunk";
  content: TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource;
  messageId?: string | null;
  _meta?: Record<string, unknown> | null;
}

export interface AgentThoughtChunk {
  sessionUpdate: "agent_thought_chunk";
  content: TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource;
  messageId?: string | null;
  _meta?: Record<string, unknown> | null;
}

export interface Annotations {
  audience?: string[] | null;
  lastModified?: string | null;
  priority?: number | null;
  _meta?: Record<string, unknown> | null;
}

export interface AudioContent {
  type: "audio";
  data: string;
  mimeType: string;
  annotations?: Annotations | null;
  _meta?: Record<string, unknown> | null;
}

export interface AuthCapabilities {
  terminal?: boolean;
  _meta?: Record<string, unknown> | null;
}

export interface AuthStatusCapabilities {
  _meta?: Record<string, unknown> | null;
}

export interface AvailableCommand {
  name: string;
  description: string;
  input?: UnstructuredCommandInput | null;
  _meta?: Record<string, unknown> | null;
}

export interface AvailableCommandsUpdate {
  sessionUpdate: "available_commands_update";
  availableCommands: AvailableCommand[];
  _meta?: Record<string, unknown> | null;
}

export interface BooleanConfigOptionCapabilities {
  _meta?: Record<string, unknown> | null;
}

export interface CancelNotification {
  sessionId: string;
  _meta?: Record<string, unknown> | null;
}

export interface CancelledPermissionOutcome {
  outcome: "cancelled";
}

export interface ClientCapabilities {
  fs?: FileSystemCapabilities;
  terminal?: boolean;
  session?: ClientSessionCapabilities | null;
  subagents?: SubagentCapabilities | null;
  plan?: PlanCapabilities | null;
  auth?: AuthCapabilities;
  elicitation?: ElicitationCapabilities | null;
  _meta?: Record<string, unknown> | null;
}

export interface ClientSessionCapabilities {
  compaction?: CompactionCapabilities | null;
  configOptions?: SessionConfigOptionsCapabilities | null;
  notices?: NoticeCapabilities | null;
  _meta?: Record<string, unknown> | null;
}

export interface CompactionCapabilities {
}

export interface CompactionSummaryChunk {
  sessionUpdate: "compaction_summary_chunk";
  compactionId: string;
  content: TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource;
  _meta?: Record<string, unknown> | null;
}

export interface CompactionUpdate {
  sessionUpdate: "compaction_update";
  compactionId: string;
  status: string;
  summary?: (TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource)[] | null;
  error?: string | null;
  _meta?: Record<string, unknown> | null;
}

export interface ConfigOptionUpdate {
  sessionUpdate: "config_option_update";
  configOptions: (SessionConfigSelect | SessionConfigBoolean)[];
  _meta?: Record<string, unknown> | null;
}

export interface Content {
  type: "content";
  content: TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource;
  _meta?: Record<string, unknown> | null;
}

export type ContentBlock =
  | TextContent
  | ImageContent
  | AudioContent
  | ResourceLink
  | EmbeddedResource;

export interface Cost {
  amount: number;
  currency: string;
  _meta?: Record<string, unknown> | null;
}

export interface CurrentModeUpdate {
  sessionUpdate: "current_mode_update";
  currentModeId: string;
  _meta?: Record<string, unknown> | null;
}

export interface Diff {
  type: "diff";
  path: string;
  newText: string;
  oldText?: string | null;
  _meta?: Record<string, unknown> | null;
}

export interface ElicitationCapabilities {
  form?: ElicitationFormCapabilities | null;
  url?: ElicitationUrlCapabilities | null;
  _meta?: Record<string, unknown> | null;
}

export interface ElicitationFormCapabilities {
  _meta?: Record<string, unknown> | null;
}

export interface ElicitationUrlCapabilities {
  _meta?: Record<string, unknown> | null;
}

export interface EmbeddedResource {
  type: "resource";
  resource: unknown;
  annotations?: Annotations | null;
  _meta?: Record<string, unknown> | null;
}

export interface Error {
  code: number;
  message: string;
  data?: unknown;
}

export interface FileSystemCapabilities {
  readTextFile?: boolean;
  writeTextFile?: boolean;
  _meta?: Record<string, unknown> | null;
}

export interface IdleStateUpdate {
  state: "idle";
  usage?: Usage | null;
  stopReason?: string | null;
  error?: Error | null;
  _meta?: Record<string, unknown> | null;
}

export interface ImageContent {
  type: "image";
  data: string;
  mimeType: string;
  annotations?: Annotations | null;
  uri?: string | null;
  _meta?: Record<string, unknown> | null;
}

export interface Implementation {
  name: string;
  version: string;
  title?: string | null;
  _meta?: Record<string, unknown> | null;
}

export interface InitializeRequest {
  protocolVersion: number;
  clientCapabilities?: ClientCapabilities;
  clientInfo?: Implementation | null;
  _meta?: Record<string, unknown> | null;
}

export interface InitializeResponse {
  protocolVersion: number;
  agentCapabilities?: AgentCapabilities;
  authMethods?: unknown[];
  agentInfo?: Implementation | null;
  _meta?: Record<string, unknown> | null;
}

export interface ListSessionsRequest {
  cwd?: string | null;
  cursor?: string | null;
  archived?: string | null;
  _meta?: Record<string, unknown> | null;
}

export interface ListSessionsResponse {
  sessions: SessionInfo[];
  nextCursor?: string | null;
  _meta?: Record<string, unknown> | null;
}

export interface LoadSessionRequest {
  mcpServers: unknown[];
  cwd: string;
  sessionId: string;
  additionalDirectories?: string[];
  systemPrompt?: SystemPrompt | null;
  _meta?: Record<string, unknown> | null;
}

export interface LoadSessionResponse {
  modes?: SessionModeState | null;
  configOptions?: (SessionConfigSelect | SessionConfigBoolean)[] | null;
  _meta?: Record<string, unknown> | null;
}

export interface LogoutCapabilities {
  _meta?: Record<string, unknown> | null;
}

export interface McpCapabilities {
  http?: boolean;
  sse?: boolean;
  acp?: boolean;
  _meta?: Record<string, unknown> | null;
}

export interface NewSessionRequest {
  cwd: string;
  mcpServers: unknown[];
  additionalDirectories?: string[];
  systemPrompt?: SystemPrompt | null;
  _meta?: Record<string, unknown> | null;
}

export interface NewSessionResponse {
  sessionId: string;
  modes?: SessionModeState | null;
  configOptions?: (SessionConfigSelect | SessionConfigBoolean)[] | null;
  _meta?: Record<string, unknown> | null;
}

export interface Notice {
  sessionUpdate: "notice";
  severity: string;
  title: string;
  description?: string | null;
  _meta?: Record<string, unknown> | null;
}

export interface NoticeCapabilities {
}

export interface PermissionOption {
  optionId: string;
  name: string;
  kind: string;
  _meta?: Record<string, unknown> | null;
}

export interface Plan {
  sessionUpdate: "plan";
  entries: PlanEntry[];
  _meta?: Record<string, unknown> | null;
}

export interface PlanCapabilities {
  _meta?: Record<string, unknown> | null;
}

export interface PlanEntry {
  content: string;
  priority: string;
  status: string;
  _meta?: Record<string, unknown> | null;
}

export interface PlanFile {
  type: "file";
  planId: string;
  uri: string;
  _meta?: Record<string, unknown> | null;
}

export interface PlanItems {
  type: "items";
  planId: string;
  entries: PlanEntry[];
  _meta?: Record<string, unknown> | null;
}

export interface PlanMarkdown {
  type: "markdown";
  planId: string;
  content: string;
  _meta?: Record<string, unknown> | null;
}

export interface PlanRemoved {
  sessionUpdate: "plan_removed";
  planId: string;
  _meta?: Record<string, unknown> | null;
}

export interface PlanUpdate {
  sessionUpdate: "plan_update";
  plan: PlanItems | PlanFile | PlanMarkdown;
  _meta?: Record<string, unknown> | null;
}

export interface PromptCapabilities {
  image?: boolean;
  audio?: boolean;
  embeddedContext?: boolean;
  _meta?: Record<string, unknown> | null;
}

export interface PromptRequest {
  sessionId: string;
  prompt: (TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource)[];
  _meta?: Record<string, unknown> | null;
}

export interface PromptResponse {
  stopReason: string;
  usage?: Usage | null;
  _meta?: Record<string, unknown> | null;
}

export interface ProvidersCapabilities {
  _meta?: Record<string, unknown> | null;
}

export interface RequestPermissionRequest {
  sessionId: string;
  toolCall: ToolCallPatch;
  options: PermissionOption[];
  _meta?: Record<string, unknown> | null;
}

export interface RequestPermissionResponse {
  outcome: CancelledPermissionOutcome | SelectedPermissionOutcome;
  _meta?: Record<string, unknown> | null;
}

export interface RequiresActionStateUpdate {
  state: "requires_action";
  _meta?: Record<string, unknown> | null;
}

export interface ResourceLink {
  type: "resource_link";
  name: string;
  uri: string;
  annotations?: Annotations | null;
  description?: string | null;
  mimeType?: string | null;
  size?: number | null;
  title?: string | null;
  _meta?: Record<string, unknown> | null;
}

export interface ResumeSessionRequest {
  sessionId: string;
  cwd: string;
  additionalDirectories?: string[];
  mcpServers?: unknown[];
  systemPrompt?: SystemPrompt | null;
  _meta?: Record<string, unknown> | null;
}

export interface ResumeSessionResponse {
  modes?: SessionModeState | null;
  configOptions?: (SessionConfigSelect | SessionConfigBoolean)[] | null;
  _meta?: Record<string, unknown> | null;
}

export interface RunningStateUpdate {
  state: "running";
  _meta?: Record<string, unknown> | null;
}

export interface SelectedPermissionOutcome {
  outcome: "selected";
  optionId: string;
  _meta?: Record<string, unknown> | null;
}

export interface SessionAdditionalDirectoriesCapabilities {
  _meta?: Record<string, unknown> | null;
}

export interface SessionArchiveCapabilities {
  _meta?: Record<string, unknown> | null;
}

export interface SessionCancelCapabilities {
  _meta?: Record<string, unknown> | null;
}

export interface SessionCapabilities {
  list?: SessionListCapabilities | null;
  delete?: SessionDeleteCapabilities | null;
  additionalDirectories?: SessionAdditionalDirectoriesCapabilities | null;
  systemPrompt?: SessionSystemPromptCapabilities | null;
  fork?: SessionForkCapabilities | null;
  archive?: SessionArchiveCapabilities | null;
  status?: SessionStatusCapabilities | null;
  title?: SessionTitleCapabilities | null;
  resume?: SessionResumeCapabilities | null;
  close?: SessionCloseCapabilities | null;
  _meta?: Record<string, unknown> | null;
}

export interface SessionCloseCapabilities {
  _meta?: Record<string, unknown> | null;
}

export interface SessionConfigBoolean {
  type: "boolean";
  id: string;
  name: string;
  currentValue: boolean;
  description?: string | null;
  category?: string | null;
  _meta?: Record<string, unknown> | null;
}

export interface SessionConfigOptionsCapabilities {
  boolean?: BooleanConfigOptionCapabilities | null;
  _meta?: Record<string, unknown> | null;
}

export interface SessionConfigSelect {
  type: "select";
  id: string;
  name: string;
  currentValue: string;
  options: unknown;
  description?: string | null;
  category?: string | null;
  _meta?: Record<string, unknown> | null;
}

export interface SessionDeleteCapabilities {
  _meta?: Record<string, unknown> | null;
}

export interface SessionForkCapabilities {
  _meta?: Record<string, unknown> | null;
}

export interface SessionInfo {
  sessionId: string;
  cwd: string;
  additionalDirectories?: string[];
  title?: string | null;
  updatedAt?: string | null;
  archived?: boolean | null;
  _meta?: Record<string, unknown> | null;
}

export interface SessionInfoUpdate {
  sessionUpdate: "session_info_update";
  title?: string | null;
  updatedAt?: string | null;
  _meta?: Record<string, unknown> | null;
}

export interface SessionListCapabilities {
  _meta?: Record<string, unknown> | null;
}

export interface SessionMessage {
  sessionUpdate: "session_message";
  messageId: string;
  senderSessionId?: string | null;
  recipientSessionId?: string | null;
  senderMessageId?: string | null;
  recipientMessageId?: string | null;
  content?: (TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource)[] | null;
  _meta?: Record<string, unknown> | null;
}

export interface SessionMessageChunk {
  sessionUpdate: "session_message_chunk";
  messageId: string;
  content: TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource;
  _meta?: Record<string, unknown> | null;
}

export interface SessionMode {
  id: string;
  name: string;
  description?: string | null;
  _meta?: Record<string, unknown> | null;
}

export interface SessionModeState {
  currentModeId: string;
  availableModes: SessionMode[];
  _meta?: Record<string, unknown> | null;
}

export interface SessionResumeCapabilities {
  _meta?: Record<string, unknown> | null;
}

export interface SessionStatusCapabilities {
  _meta?: Record<string, unknown> | null;
}

export interface SessionSystemPromptCapabilities {
  mode?: SessionSystemPromptModeCapabilities | null;
  _meta?: Record<string, unknown> | null;
}

export interface SessionSystemPromptModeCapabilities {
  override?: SessionSystemPromptOverrideCapabilities | null;
  _meta?: Record<string, unknown> | null;
}

export interface SessionSystemPromptOverrideCapabilities {
  _meta?: Record<string, unknown> | null;
}

export interface SessionTitleCapabilities {
  _meta?: Record<string, unknown> | null;
}

export type SessionUpdate =
  | UserMessageChunk
  | AgentMessageChunk
  | AgentThoughtChunk
  | ToolCall
  | ToolCallUpdate
  | Plan
  | PlanUpdate
  | PlanRemoved
  | AvailableCommandsUpdate
  | CurrentModeUpdate
  | ConfigOptionUpdate
  | SessionInfoUpdate
  | UsageUpdate
  | Notice
  | CompactionUpdate
  | CompactionSummaryChunk
  | SubagentUpdate
  | SessionMessage
  | SessionMessageChunk;

export interface SetSessionModeRequest {
  sessionId: string;
  modeId: string;
  _meta?: Record<string, unknown> | null;
}

export interface SubagentCapabilities {
  _meta?: Record<string, unknown> | null;
}

export interface SubagentSessionCapabilities {
  cancel?: SessionCancelCapabilities | null;
  _meta?: Record<string, unknown> | null;
}

export interface SubagentUpdate {
  sessionUpdate: "subagent_update";
  sessionId: string;
  title?: string | null;
  description?: string | null;
  capabilities?: SubagentSessionCapabilities | null;
  state?: RunningStateUpdate | IdleStateUpdate | RequiresActionStateUpdate | UnknownStateUpdate | null;
  cwd?: string | null;
  additionalDirectories?: string[] | null;
  _meta?: Record<string, unknown> | null;
}

export interface SystemPrompt {
  mode: string;
  content: (TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource)[];
  _meta?: Record<string, unknown> | null;
}

export interface Terminal {
  type: "terminal";
  terminalId: string;
  _meta?: Record<string, unknown> | null;
}

export interface TextContent {
  type: "text";
  text: string;
  annotations?: Annotations | null;
  _meta?: Record<string, unknown> | null;
}

export interface ToolCall {
  sessionUpdate: "tool_call";
  toolCallId: string;
  title: string;
  name?: string | null;
  kind?: string;
  status?: string;
  content?: (Content | Diff | Terminal)[];
  locations?: ToolCallLocation[];
  rawInput?: unknown;
  rawOutput?: unknown;
  _meta?: Record<string, unknown> | null;
}

export type ToolCallContent =
  | Content
  | Diff
  | Terminal;

export interface ToolCallLocation {
  path: string;
  line?: number | null;
  _meta?: Record<string, unknown> | null;
}

export interface ToolCallPatch {
  toolCallId: string;
  kind?: string | null;
  status?: string | null;
  title?: string | null;
  name?: string | null;
  content?: (Content | Diff | Terminal)[] | null;
  locations?: ToolCallLocation[] | null;
  rawInput?: unknown;
  rawOutput?: unknown;
  _meta?: Record<string, unknown> | null;
}

export interface ToolCallUpdate {
  sessionUpdate: "tool_call_update";
  toolCallId: string;
  kind?: string | null;
  status?: string | null;
  title?: string | null;
  name?: string | null;
  content?: (Content | Diff | Terminal)[] | null;
  locations?: ToolCallLocation[] | null;
  rawInput?: unknown;
  rawOutput?: unknown;
  _meta?: Record<string, unknown> | null;
}

export interface UnknownStateUpdate {
  state: "unknown";
  _meta?: Record<string, unknown> | null;
}

export interface UnstructuredCommandInput {
  hint: string;
  _meta?: Record<string, unknown> | null;
}

export interface Usage {
  totalTokens: number;
  inputTokens: number;
  outputTokens: number;
  thoughtTokens?: number | null;
  cachedReadTokens?: number | null;
  cachedWriteTokens?: number | null;
  _meta?: Record<string, unknown> | null;
}

export interface UsageUpdate {
  sessionUpdate: "usage_update";
  used: number;
  size: number;
  cost?: Cost | null;
  _meta?: Record<string, unknown> | null;
}

export interface UserMessageChunk {
  sessionUpdate: "user_message_chunk";
  content: TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource;
  messageId?: string | null;
  _meta?: Record<string, unknown> | null;
}

export type AgentMethod =
  | "$/cancel_request"
  | "auth/status"
  | "authenticate"
  | "initialize"
  | "logout"
  | "mcp/message"
  | "providers/disable"
  | "providers/list"
  | "providers/set"
  | "session/archive"
  | "session/cancel"
  | "session/close"
  | "session/delete"
  | "session/fork"
  | "session/list"
  | "session/load"
  | "session/new"
  | "session/prompt"
  | "session/resume"
  | "session/set_config_option"
  | "session/set_mode"
  | "session/set_title"
  | "session/status"
  | "session/unarchive";

export type ClientMethod =
  | "$/cancel_request"
  | "auth/status_update"
  | "elicitation/complete"
  | "elicitation/create"
  | "fs/read_text_file"
  | "fs/write_text_file"
  | "mcp/message"
  | "session/request_permission"
  | "session/update"
  | "terminal/create"
  | "terminal/kill"
  | "terminal/output"
  | "terminal/release"
  | "terminal/wait_for_exit";

export type HostMethod =
  | "_dragoman/agents"
  | "_dragoman/answer"
  | "_dragoman/changes"
  | "_dragoman/changes/context"
  | "_dragoman/changes/decide"
  | "_dragoman/changes/files"
  | "_dragoman/changes/reviewed"
  | "_dragoman/detach"
  | "_dragoman/devices"
  | "_dragoman/devices/code"
  | "_dragoman/devices/remove"
  | "_dragoman/files"
  | "_dragoman/fleet/end"
  | "_dragoman/fleet/hosts"
  | "_dragoman/fleet/quota"
  | "_dragoman/fleet/sessions"
  | "_dragoman/fleet/show"
  | "_dragoman/fleet/users"
  | "_dragoman/folders"
  | "_dragoman/history"
  | "_dragoman/input"
  | "_dragoman/ledger"
  | "_dragoman/log_in"
  | "_dragoman/login_methods"
  | "_dragoman/presence"
  | "_dragoman/push/key"
  | "_dragoman/push/subscribe"
  | "_dragoman/push/unsubscribe"
  | "_dragoman/queue/edit"
  | "_dragoman/queue/remove"
  | "_dragoman/reorder"
  | "_dragoman/report"
  | "_dragoman/restart_agent"
  | "_dragoman/rewind/apply"
  | "_dragoman/rewind/plan"
  | "_dragoman/search"
  | "_dragoman/sessions/unwatch"
  | "_dragoman/sessions/watch"
  | "_dragoman/steer"
  | "_dragoman/take"
  | "_dragoman/traffic"
  | "_dragoman/traffic/save"
  | "_dragoman/turns"
  | "_dragoman/worktrees"
  | "_dragoman/worktrees/discard"
  | "_dragoman/worktrees/merge";

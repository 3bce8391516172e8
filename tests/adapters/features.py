"""Which adapter has which feature, each proven by a test: the source of the table in docs/adapters.md."""

ADAPTERS = (
    *("function", "pydantic_ai", "langgraph", "openai_agents", "ui_stream", "ag_ui", "openai_chat", "command"),
    *("claude_code", "codex"),
)

_FUNCTIONS = "tests/adapters/test_functions.py"
_PERMISSION = "tests/adapters/test_permission.py"
_SESSIONS = "tests/adapters/test_sessions.py"
_PYDANTIC = "tests/adapters/test_pydantic_agent.py"
_GRAPHS = "tests/interop/frameworks/test_graphs.py"
_OPENAI = "tests/interop/frameworks/test_openai_agents.py"
_UI = "tests/adapters/test_ui_stream.py"
_AG_UI = "tests/adapters/test_ag_ui.py"
_CHAT = "tests/adapters/test_openai_chat.py"
_COMMAND = "tests/adapters/test_command.py"
_CLAUDE = "tests/adapters/claude/test_claude_turns.py"
_CLAUDE_SESSIONS = "tests/adapters/claude/test_claude_sessions.py"
_CODEX = "tests/adapters/test_codex.py"
_RECORDINGS = "tests/adapters/test_framework_recordings.py"

# Feature -> adapter -> the test that shows it.
FEATURES: dict[str, dict[str, str]] = {
    "text, streamed": {
        "function": f"{_FUNCTIONS}::test_every_shape_of_callable_answers",
        "pydantic_ai": f"{_PYDANTIC}::test_text_thoughts_and_history_of_its_own_across_programs",
        "langgraph": f"{_GRAPHS}::test_an_agent_answers_asks_plans_and_goes_on",
        "openai_agents": f"{_OPENAI}::test_an_agent_answers_asks_fails_and_goes_on",
        "ui_stream": f"{_UI}::test_every_recorded_stream_arrives_over_http_as_it_was_recorded",
        "ag_ui": f"{_AG_UI}::test_a_real_agent_answers_asks_and_remembers",
        "openai_chat": f"{_CHAT}::test_pieces_of_every_kind",
        "command": f"{_COMMAND}::test_output_is_shown_while_the_tool_runs",
        "claude_code": f"{_CLAUDE}::test_text_thoughts_usage_and_the_title_are_shown",
        "codex": f"{_CODEX}::test_text_thoughts_plan_search_and_usage",
    },
    "thoughts": {
        "function": f"{_FUNCTIONS}::test_a_function_thinks_and_sees_images",
        "pydantic_ai": f"{_PYDANTIC}::test_text_thoughts_and_history_of_its_own_across_programs",
        "langgraph": f"{_RECORDINGS}::test_thoughts_of_a_graph_and_of_openai_agents_are_thoughts",
        "openai_agents": f"{_RECORDINGS}::test_thoughts_of_a_graph_and_of_openai_agents_are_thoughts",
        "ui_stream": f"{_UI}::test_an_agent_that_pydantic_ai_serves_answers_and_remembers",
        "ag_ui": f"{_AG_UI}::test_a_real_agent_answers_asks_and_remembers",
        "openai_chat": f"{_CHAT}::test_pieces_of_every_kind",
        "command": f"{_COMMAND}::test_stderr_is_a_thought_and_the_answer_goes_on_after_it",
        "claude_code": f"{_CLAUDE}::test_text_thoughts_usage_and_the_title_are_shown",
        "codex": f"{_CODEX}::test_text_thoughts_plan_search_and_usage",
    },
    "tool calls": {
        "function": f"{_FUNCTIONS}::test_text_after_a_tool_call_is_a_message_of_its_own",
        "pydantic_ai": f"{_PYDANTIC}::test_a_call_that_needs_permission_is_asked_inside_the_run",
        "langgraph": f"{_GRAPHS}::test_an_agent_answers_asks_plans_and_goes_on",
        "openai_agents": f"{_OPENAI}::test_an_agent_answers_asks_fails_and_goes_on",
        "ui_stream": f"{_UI}::test_every_recorded_stream_arrives_over_http_as_it_was_recorded",
        "ag_ui": f"{_AG_UI}::test_every_kind_of_event_is_mapped_and_others_show_nothing",
        "openai_chat": f"{_CHAT}::test_a_call_of_a_tool_is_shown_and_refused",
        "command": f"{_COMMAND}::test_changed_files_are_tool_calls_with_diffs",
        "claude_code": f"{_CLAUDE}::test_an_edit_is_asked_about_with_its_diff_and_shown_with_what_it_changed",
        "codex": f"{_CODEX}::test_a_command_is_asked_about_with_the_options_that_codex_offers",
    },
    "permission": {
        "function": f"{_PERMISSION}::test_the_question_shows_the_call_and_the_options_with_their_kinds",
        "pydantic_ai": f"{_PYDANTIC}::test_a_call_that_needs_permission_is_asked_inside_the_run",
        "langgraph": f"{_GRAPHS}::test_an_agent_answers_asks_plans_and_goes_on",
        "openai_agents": f"{_OPENAI}::test_an_agent_answers_asks_fails_and_goes_on",
        "ui_stream": f"{_UI}::test_permission_is_given_by_posting_again_as_the_sdks_client_does",
        "ag_ui": f"{_AG_UI}::test_a_real_agent_answers_asks_and_remembers",
        "claude_code": f"{_CLAUDE}::test_permission_is_given_once_always_or_not",
        "codex": f"{_CODEX}::test_a_command_is_asked_about_with_the_options_that_codex_offers",
    },
    "changed arguments": {
        "function": f"{_PERMISSION}::test_the_user_can_change_the_input_in_a_form_where_the_client_has_forms",
        "pydantic_ai": f"{_PYDANTIC}::test_the_user_can_change_the_arguments",
        "langgraph": f"{_GRAPHS}::test_the_user_can_change_the_arguments",
        "ag_ui": f"{_AG_UI}::test_a_real_agent_answers_asks_and_remembers",
        "claude_code": f"{_CLAUDE}::test_the_user_can_change_a_command_before_it_runs",
    },
    "questions as forms": {
        "function": f"{_PERMISSION}::test_a_form_is_filled_in_declined_or_not_there",
        "langgraph": f"{_GRAPHS}::test_a_question_in_words_is_a_form_or_the_next_prompt",
        "ag_ui": f"{_AG_UI}::test_an_interrupt_without_a_call_is_a_form",
        "claude_code": f"{_CLAUDE}::test_questions_are_a_form",
        "codex": f"{_CODEX}::test_questions_are_a_form_or_options",
    },
    "cancel": {
        "function": f"{_FUNCTIONS}::test_cancel_ends_an_async_function_at_once_with_its_clean_up",
        "pydantic_ai": f"{_PYDANTIC}::test_cancel_keeps_what_was_shown_and_the_next_turn_works",
        "langgraph": f"{_GRAPHS}::test_cancel_ends_a_streaming_model_and_the_next_turn_works",
        "openai_agents": f"{_OPENAI}::test_an_agent_answers_asks_fails_and_goes_on",
        "ui_stream": f"{_UI}::test_cancel_closes_the_connection",
        "ag_ui": f"{_AG_UI}::test_a_real_agent_answers_asks_and_remembers",
        "openai_chat": f"{_CHAT}::test_a_server_answers_remembers_and_can_be_cancelled",
        "command": f"{_COMMAND}::test_cancel_ends_the_whole_tree_and_shows_what_changed",
        "claude_code": f"{_CLAUDE}::test_cancel_ends_the_turn_in_the_program_too",
        "codex": f"{_CODEX}::test_cancel_ends_the_running_command_with_everything_it_started",
    },
    "sessions: list, load, resume, delete": {
        "function": f"{_SESSIONS}::test_a_session_is_listed_loaded_resumed_and_deleted_across_programs",
        "pydantic_ai": f"{_PYDANTIC}::test_text_thoughts_and_history_of_its_own_across_programs",
        "langgraph": f"{_GRAPHS}::test_a_session_goes_on_in_another_program",
        "openai_agents": f"{_OPENAI}::test_an_agent_answers_asks_fails_and_goes_on",
        "ui_stream": f"{_UI}::test_what_arrived_before_a_stream_broke_off_is_kept_and_shown",
        "ag_ui": "tests/adapters/test_conformance.py::test_no_rule_is_broken",
        "openai_chat": f"{_CHAT}::test_the_models_of_the_server_can_be_chosen_and_the_choice_is_kept",
        "command": f"{_COMMAND}::test_sessions_are_listed_and_loaded_with_what_was_shown",
        "claude_code": f"{_CLAUDE_SESSIONS}::test_a_session_is_listed_loaded_resumed_and_deleted_across_programs",
        "codex": f"{_CODEX}::test_sessions_are_listed_loaded_resumed_forked_and_deleted_across_programs",
    },
    "plan": {
        "function": f"{_FUNCTIONS}::test_a_function_shows_plan_usage_and_notices",
        "langgraph": f"{_GRAPHS}::test_an_agent_answers_asks_plans_and_goes_on",
        "claude_code": f"{_CLAUDE}::test_the_plan_is_shown_instead_of_the_calls_that_keep_it",
        "codex": f"{_CODEX}::test_text_thoughts_plan_search_and_usage",
    },
    "usage of the context window": {
        "function": f"{_FUNCTIONS}::test_a_function_shows_plan_usage_and_notices",
        "claude_code": f"{_CLAUDE}::test_text_thoughts_usage_and_the_title_are_shown",
        "codex": f"{_CODEX}::test_text_thoughts_plan_search_and_usage",
    },
    "models, modes, options": {
        "function": f"{_FUNCTIONS}::test_settings_are_offered_chosen_kept_and_seen_by_the_function",
        "openai_chat": f"{_CHAT}::test_the_models_of_the_server_can_be_chosen_and_the_choice_is_kept",
        "claude_code": f"{_CLAUDE_SESSIONS}::test_modes_models_and_effort_are_offered_and_chosen",
        "codex": f"{_CODEX}::test_modes_models_effort_policy_and_sandbox_can_be_chosen",
    },
    "images": {
        "function": f"{_FUNCTIONS}::test_a_function_thinks_and_sees_images",
        "pydantic_ai": f"{_PYDANTIC}::test_images_reach_the_model",
        "langgraph": f"{_GRAPHS}::test_an_image_reaches_the_model",
        "openai_agents": f"{_OPENAI}::test_an_agent_answers_asks_fails_and_goes_on",
        "ui_stream": f"{_UI}::test_the_whole_conversation_is_sent_each_time",
        "ag_ui": f"{_AG_UI}::test_an_image_is_sent_as_a_part",
        "openai_chat": f"{_CHAT}::test_an_image_is_sent_as_a_data_url",
        "claude_code": f"{_CLAUDE}::test_images_files_and_servers_of_the_client_reach_the_program",
        "codex": f"{_CODEX}::test_images_and_embedded_texts_reach_codex",
    },
    "sub-agents": {
        "langgraph": f"{_GRAPHS}::test_the_text_of_a_sub_agent_is_the_output_of_its_call",
        "claude_code": f"{_CLAUDE}::test_a_sub_agent_is_shown_under_its_call",
        "codex": f"{_CODEX}::test_rare_items_are_shown_and_a_sub_agent_belongs_to_its_call",
    },
    "continued after a broken connection": {
        "ui_stream": f"{_UI}::test_a_broken_stream_is_continued_by_get_where_the_server_offers_it",
    },
    "diffs of edits": {
        "claude_code": f"{_CLAUDE}::test_an_edit_is_asked_about_with_its_diff_and_shown_with_what_it_changed",
    },
    "MCP servers of the client": {
        "pydantic_ai": "tests/adapters/test_session_mcp.py"
        "::test_tools_of_the_servers_that_start_are_called_after_the_user_permits_it",
        "claude_code": f"{_CLAUDE}::test_images_files_and_servers_of_the_client_reach_the_program",
        "codex": f"{_CODEX}::test_the_mcp_servers_of_the_client_are_used_and_a_broken_one_is_reported",
    },
    "copies of sessions": {
        "claude_code": f"{_CLAUDE_SESSIONS}::test_a_session_is_copied",
        "codex": f"{_CODEX}::test_sessions_are_listed_loaded_resumed_forked_and_deleted_across_programs",
    },
    "text added to a running turn": {
        "claude_code": f"{_CLAUDE}::test_text_can_be_added_to_a_running_turn",
        "codex": f"{_CODEX}::test_text_of_the_user_reaches_the_running_turn",
    },
    "work in the background": {
        "claude_code": f"{_CLAUDE}::test_work_in_the_background_is_shown_asked_about_and_ends_no_prompt",
    },
    "diffs of all files that changed": {
        "command": f"{_COMMAND}::test_changed_files_are_tool_calls_with_diffs",
    },
    "real recordings": {
        "pydantic_ai": f"{_RECORDINGS}::test_a_recorded_run_of_pydantic_ai",
        "langgraph": f"{_RECORDINGS}::test_a_recorded_run_of_a_graph",
        "openai_agents": f"{_RECORDINGS}::test_a_recorded_run_of_openai_agents",
        "ui_stream": f"{_UI}::test_every_recorded_stream_arrives_over_http_as_it_was_recorded",
        "claude_code": "tests/adapters/claude/test_claude_recordings.py::test_a_recorded_turn_of_claude",
        "codex": "tests/adapters/test_codex_recordings.py::test_a_recorded_turn_shows_what_its_items_say",
    },
}


def table() -> str:
    """The table as it stands in docs/adapters.md."""
    lines = [f"| feature | {' | '.join(f'`{name}`' for name in ADAPTERS)} |", "|---|" + "---|" * len(ADAPTERS)]
    for feature, shown in FEATURES.items():
        if feature == "real recordings":
            continue
        lines.append(f"| {feature} | {' | '.join('yes' if name in shown else '' for name in ADAPTERS)} |")
    return "\n".join(lines)

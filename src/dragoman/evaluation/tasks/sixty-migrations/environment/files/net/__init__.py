# Licence: example, see LICENCE

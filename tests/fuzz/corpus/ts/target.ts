@targetLabel true
@data
1,2:0.5
